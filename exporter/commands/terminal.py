"""Text on a terminal or into a pipe: what stands in it never steers the one or breaks the other."""

import io
import sys

from rich.console import Console

UNKNOWN = "-"


def console() -> Console:
    """Standard output; a character that it cannot show becomes an escape rather than an error."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    return Console(highlight=False, markup=False, emoji=False)


def printable(text: str) -> str:
    """Text from elsewhere (names of processes, engines) with blanks for what is not printable."""
    return "".join(char if char.isprintable() else " " for char in text)
