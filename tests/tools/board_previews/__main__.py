"""Previews of the boards for the docs, out of recordings; takes four minutes.

Usage: python -m tests.tools.board_previews [DIRECTORY]; needs npm, and Debian's chromium and
prometheus.

A Grafana is not needed: npm has Grafana's own components for everything but heatmaps and
annotations, which are drawn here by its rules. So the pictures are labelled as what they are.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

from exporter.recordings import DEMO, bundled_path
from tests.tools.board_previews.asked import board, part
from tests.tools.board_previews.drawn import Pictures, built
from tests.tools.board_previews.nodes import Played, played

SECONDS = 109  # of the demo
GOLDEN = Path(__file__).parents[2] / "golden"
RECORDINGS = {
    "node-1": bundled_path(DEMO),
    "node-2": bundled_path("tp4_cotenant"),
    "node-3": GOLDEN / "large_pool.jsonl.gz",
}
NODE_1 = {"instance": ["node-1:10411"], "device": ["cuda:0", "cuda:1"]}

FLEET_ROWS = ("Now", "Pressure", "By model", "By node", "Where the fleet's memory is", "Work")
GPU_ROWS = (
    "Now",
    "Pressure of every GPU of $instance",
    "Every sample, also those between two scrapes",
    "Where the memory went",
    "Room to the next failure",
    "Processes and conflicts",
)
KV_ROWS = (
    "Now",
    "KV pool",
    "Work, GPU and memory on one clock",
    "Prefix cache",
    "Page tables: normal when scattered, see the note",
)

HALF, WHOLE = (12, 8), (24, 9)
INCIDENT = {
    "pool": (
        "kv",
        {
            "KV usage": HALF,
            "Requests running and waiting": HALF,
            "Preemptions": HALF,
            "Headroom": HALF,
        },
    ),
    "pressure": (
        "gpu",
        {"Device pressure, GPU by GPU": HALF, "Effective pressure, GPU by GPU": HALF},
    ),
    "co-tenant": (
        "gpu",
        {
            "Where the memory of cuda:1 went": WHOLE,
            "Used, and used for requests": HALF,
            "Out-of-memory margin": HALF,
        },
    ),
}
"""Pictures of docs/incident.md: the panels of a board, and their sizes on its grid."""


def main() -> None:
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images").resolve()
    with tempfile.TemporaryDirectory() as scratch:
        page = built(Path(scratch) / "page")
        data = Path(scratch) / "data"
        data.mkdir()
        with played(RECORDINGS, SECONDS, data) as nodes:
            boards = asked(nodes)
        with Pictures(page) as pictures:
            for name, answered in boards.items():
                pictures.write(answered, directory / f"board-{name}.png")
            for name, (of, sizes) in INCIDENT.items():
                pictures.write(
                    part(boards[of], sizes), directory / f"incident-{name}.png", width=1200
                )


def asked(nodes: Played) -> dict[str, dict[str, Any]]:
    """The three boards with their answers; two look at the node of the demo alone."""
    return {
        "fleet": board("vllm-memory-fleet", nodes, {}, FLEET_ROWS),
        "gpu": board("vllm-memory-gpu", nodes, NODE_1, GPU_ROWS),
        "kv": board("vllm-memory-kv", nodes, {"instance": NODE_1["instance"]}, KV_ROWS),
    }


if __name__ == "__main__":
    main()
