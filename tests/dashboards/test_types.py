"""The boards against Grafana's own types, with the TypeScript compiler."""

import copy
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.dashboards.boards import BOARDS
from tests.dashboards.conftest import NODE_MODULES

TYPES = Path(__file__).parent / "schema/board.ts"
OPTIONS = [
    "--noEmit",
    "--strict",
    "--skipLibCheck",
    "--module",
    "esnext",
    "--moduleResolution",
    "bundler",
]
FIRST_LINE = 3  # of check.ts that holds a board
Board = dict[str, Any]


def check_types(boards: list[Board], directory: Path) -> subprocess.CompletedProcess[str]:
    """tsc over the boards as object literals, which may have no key that the types lack."""
    (directory / "node_modules").symlink_to(NODE_MODULES)
    (directory / "board.ts").write_text(TYPES.read_text())
    literals = ",\n".join(map(json.dumps, boards))
    (directory / "check.ts").write_text(
        "import type { Board } from './board';\n"
        f"export const boards: Board[] = [\n{literals}\n];\n"
    )
    return subprocess.run(
        [NODE_MODULES / ".bin/tsc", *OPTIONS, "check.ts"],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )


def test_boards_have_the_types_of_grafana_13(tmp_path: Path) -> None:
    result = check_types(list(BOARDS.values()), tmp_path)
    assert (result.returncode, result.stdout) == (0, "")


def first(board: Board, kind: str) -> Board:
    return next(panel for panel in board["panels"] if panel["type"] == kind)


FAULTS: dict[str, Callable[[Board], None]] = {
    "schem": lambda board: first(board, "heatmap")["options"]["color"].update(mode="schem"),
    "lineWdth": lambda board: first(board, "timeseries")["fieldConfig"]["defaults"][
        "custom"
    ].update(lineWdth=1),
    "showHedder": lambda board: board["panels"].append(
        {"type": "table", "options": {"showHedder": True}}
    ),
    "graphToltip": lambda board: board.update(graphToltip=1),
}


def test_a_wrong_value_or_an_unknown_key_is_found(tmp_path: Path) -> None:
    boards = [copy.deepcopy(BOARDS["vllm-memory-gpu"]) for _ in FAULTS]
    for spoil, board in zip(FAULTS.values(), boards, strict=True):
        spoil(board)
    result = check_types(boards, tmp_path)
    assert result.returncode != 0
    complaints = result.stdout.splitlines()
    for line, fault in enumerate(FAULTS, start=FIRST_LINE):
        assert any(c.startswith(f"check.ts({line},") and fault in c for c in complaints), complaints
