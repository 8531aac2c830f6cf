"""The committed boards: their panels and queries, as Grafana would find them."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).parents[2] / "dashboards"
FILES = sorted(DIRECTORY.glob("*.json"))
BOARDS: dict[str, dict[str, Any]] = {file.stem: json.loads(file.read_text()) for file in FILES}

ANYTHING: Mapping[str, str] = {
    "__rate_interval": "4s",
    "__range": "15m",
    "job": ".+",
    "instance": ".+",
    "device": ".*",
    "model_name": ".*",
    "engine": ".*",
    "vllm_job": ".+",
    "vllm_instance": ".+",
}
"""What Grafana puts in for the variables while "All" is chosen and the scrape interval is 1 s."""
_VARIABLE = re.compile(r"\$([a-z_]\w*)")


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a board, and where it stands."""

    board: str
    place: str
    expr: str
    is_instant: bool = False

    @property
    def id(self) -> str:
        return f"{self.board.removeprefix('vllm-memory-')} / {self.place}"

    def with_values(self, values: Mapping[str, str] = ANYTHING) -> str:
        """The query as Grafana sends it; a variable without a value is a KeyError."""
        return _VARIABLE.sub(lambda match: values[match[1]], self.expr)


def panels(uid: str, *kinds: str) -> list[dict[str, Any]]:
    """The board's panels of these kinds, or all that show data."""
    wanted = BOARDS[uid]["panels"]
    return [
        panel
        for panel in wanted
        if (panel["type"] in kinds if kinds else panel["type"] not in ("row", "text"))
    ]


def panel_queries() -> list[Query]:
    """Every query of every panel."""
    return [
        Query(uid, f"{panel['title']} / {target['refId']}", target["expr"], target["instant"])
        for uid in BOARDS
        for panel in panels(uid)
        for target in panel["targets"]
    ]


def other_queries() -> Iterator[Query]:
    """The queries of annotations, and the series that variables take their values from."""
    for uid, board in BOARDS.items():
        for annotation in board["annotations"]["list"]:
            if "expr" in annotation:
                yield Query(uid, f"annotation {annotation['name']}", annotation["expr"])
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                match = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
                assert match, variable
                yield Query(uid, f"variable {variable['name']}", match[1])


def all_queries() -> list[Query]:
    return [*panel_queries(), *other_queries()]
