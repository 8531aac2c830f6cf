"""The boards through Grafana's SDK for 11.6: what it does not know is lost."""

import copy
import json
from typing import Any

import pytest
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from tests.dashboards.boards import BOARDS

Board = dict[str, Any]
OF_THE_DATA_SOURCE = {"expr", "step", "titleFormat", "textFormat", "definition"}
"""What Prometheus adds to annotations and variables; the SDK knows what all data sources have."""


def lost(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """Where the SDK's reading of a board lacks or changes what we wrote; its defaults may join."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [
            where
            for key, value in ours.items()
            for where in lost(value, theirs.get(key), f"{path}/{key}")
        ]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [where for index, (a, b) in pairs for where in lost(a, b, f"{path}/{index}")]
    return [] if ours == theirs else [path]


def through_the_sdk(board: Board) -> Board:
    """The board as the SDK reads and writes it: keys that it does not know are lost."""
    plugins.register_default_plugins()
    read = Dashboard.from_json(copy.deepcopy(board))
    written: Board = json.loads(JSONEncoder(sort_keys=True).encode(read))
    return written


@pytest.mark.parametrize("uid", BOARDS)
def test_the_sdk_of_grafana_11_loses_nothing_of_a_board(uid: str) -> None:
    board = BOARDS[uid]
    for path in lost(board, through_the_sdk(board)):
        assert path.startswith(("/annotations/list/", "/templating/list/")), path
        assert path.rpartition("/")[2] in OF_THE_DATA_SOURCE, path


def test_a_key_that_the_sdk_does_not_know_is_lost() -> None:
    board = copy.deepcopy(BOARDS["vllm-memory-gpu"])
    assert board["panels"][1]["type"] == "stat"
    board["panels"][1]["options"]["colourMode"] = "value"
    board["panels"][1]["fieldConfig"]["defaults"]["unitt"] = "bytes"
    found = lost(board, through_the_sdk(board))
    assert "/panels/1/options/colourMode" in found
    assert "/panels/1/fieldConfig/defaults/unitt" in found
