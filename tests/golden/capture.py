"""Writes the golden expositions anew: python -m tests.golden.capture; read the diff then.

A golden exposition is what /metrics says of a frozen replay, without what it says of itself.
"""

from pathlib import Path

from exporter.recordings import bundled_path
from tests.daemon import running

HERE = Path(__file__).parent
OWN_PREFIXES = ("vllm_memory_exporter_", "process_")

GOLDEN = {
    HERE / "tp4_cotenant_at_36.2s.txt": (bundled_path(), 36.2),
    HERE / "h200_exhaustion_at_25s.txt": (bundled_path("h200_exhaustion"), 25.0),
    HERE / "h200_exhaustion_at_63s.txt": (bundled_path("h200_exhaustion"), 63.0),
    HERE / "h200x2_exhaustion_at_85s.txt": (bundled_path("h200x2_exhaustion"), 85.0),
    HERE / "h200x2_exhaustion_at_107s.txt": (bundled_path("h200x2_exhaustion"), 107.0),
    HERE / "h200x2_engines_at_55s.txt": (HERE / "h200x2_engines.jsonl.gz", 55.0),
    HERE / "h200_complete_scrape.txt": (HERE / "h200_complete.jsonl.gz", 15.2),
    HERE / "h200_torch_at_26s.txt": (HERE / "h200_torch.jsonl", 26.0),
}
"""File → the recording that it is of, and where that is frozen (seconds)."""


def exposition(recording: Path, freeze_at_s: float) -> str:
    """What the daemon says of the recording, frozen there."""
    flags = ("--replay", str(recording), "--replay.freeze-at", str(freeze_at_s))
    with running("serve", *flags) as daemon:
        status, body = daemon.get("/metrics")
    assert status == 200, body
    return without_own(body.decode())


def without_own(text: str) -> str:
    """The exposition without the exporter's own families."""
    return "".join(line for line in text.splitlines(keepends=True) if not _is_own(line))


def _is_own(line: str) -> bool:
    name = line.split()[2] if line.startswith("#") else line
    return name.startswith(OWN_PREFIXES)


if __name__ == "__main__":
    for path, (recording, freeze_at_s) in GOLDEN.items():
        path.write_text(exposition(recording, freeze_at_s))
