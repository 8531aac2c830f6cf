"""Programs of the deployment suite's own environment."""

import sys
from pathlib import Path


def tool(name: str) -> str:
    """A program that was installed beside this Python."""
    return str(Path(sys.executable).with_name(name))
