"""Recordings that come with the program: data files, and where they are."""

from importlib.resources import files
from pathlib import Path

DEMO = "h200_exhaustion"
"""One H200: requests outgrow the KV pool, are preempted, and another process takes 7.5 GiB."""


def bundled_path(name: str = "tp4_cotenant") -> Path:
    """Where a bundled recording is.

    ``tp4_cotenant`` is four H200 under tensor parallel, KV usage up to 0.67, and another process
    that takes 6 GiB of GPU 1 for a while; for the other see `DEMO`.
    """
    return Path(str(files(__name__) / f"{name}.jsonl"))
