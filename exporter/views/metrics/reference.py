"""Writes the metric table as a page: ``python -m exporter.views.metrics.reference [--check FILE]``.

Knows no View; what a figure is worth stands in the table alone.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from exporter.views.metrics.family import Family
from exporter.views.metrics.table import SUBJECTS

_HEAD = """\
# Metrics

<!-- Made by `python -m exporter.views.metrics.reference`; do not edit. -->

What is unknown is absent, never 0. Sizes are in bytes, times in seconds, ratios run from 0 to 1.
`device` is `cuda:N` with N the NVML index; join on `uuid`. `replica`, `model_name` and `engine`
name a vLLM engine, `rank` a worker in it. Windows and histograms are made of every sample, also
of those between two scrapes. Beside these, `process_*` tells of the exporter's own process.
"""
_COLUMNS = """\
| name | kind | labels | meaning |
| --- | --- | --- | --- |
"""


def reference() -> str:
    """The whole page, in Markdown."""
    parts = [_HEAD]
    for subject in SUBJECTS:
        parts.append(f"\n## {subject.title}\n\n{_COLUMNS}")
        parts.extend(map(_row, subject.families))
    return "".join(parts)


def _row(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    return f"| `{family.name}` | {family.kind} | {labels} | {family.help} |\n"


def main(arguments: Sequence[str]) -> int:
    """Print the page, or with ``--check FILE`` compare it with FILE.

    Returns: exit code, 1 when FILE is not the page that the table makes.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", type=Path, metavar="FILE", help="compare, do not print")
    file: Path | None = parser.parse_args(arguments).check
    if file is None:
        sys.stdout.write(reference())
        return 0
    if file.read_text(encoding="utf-8") == reference():
        return 0
    sys.stderr.write(f"{file} is out of date: make it anew with the command in its second line\n")
    return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
