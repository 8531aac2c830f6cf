"""Writes the boards: ``python -m dashboards.generate [--check]``.

Knows which boards there are, and nothing of what is on them.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from dashboards.board import Board
from dashboards.fleet.board import FLEET_BOARD
from dashboards.gpu.board import GPU_BOARD
from dashboards.kv.board import KV_BOARD

BOARDS: Sequence[Board] = (FLEET_BOARD, GPU_BOARD, KV_BOARD)
HERE = Path(__file__).parent


def text_of(board: Board) -> str:
    """The board's file: keys in their order, so that a change of one panel is a small diff."""
    return json.dumps(board.json(), indent=2, ensure_ascii=False) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Write all boards, or with ``--check`` compare them with the files.

    Returns: exit code, 1 when a file is not what the generator makes.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    parser.add_argument("--directory", type=Path, default=HERE, help="where the files are")
    options = parser.parse_args(arguments)
    directory: Path = options.directory
    wanted = {directory / f"{board.uid}.json": text_of(board) for board in BOARDS}
    if not options.check:
        for file, content in wanted.items():
            file.write_text(content, encoding="utf-8")
        return 0
    stale = [file for file, content in wanted.items() if _content(file) != content]
    strays = sorted(set(directory.glob("*.json")) - set(wanted))
    for file in stale:
        sys.stderr.write(f"{file} is out of date: run make dashboards\n")
    for file in strays:
        sys.stderr.write(f"{file} is no board of the generator\n")
    return 1 if stale or strays else 0


def _content(file: Path) -> str | None:
    return file.read_text(encoding="utf-8") if file.exists() else None


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
