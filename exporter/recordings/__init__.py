"""Recordings that come with the program: data files, and where they are."""

from importlib.resources import files
from pathlib import Path

DEMO = "h200x2_exhaustion"
"""Two H200 under tensor parallel: requests outgrow the KV pool and are preempted, and another
process takes 6 GiB of GPU 1."""


def bundled_path(name: str = "tp4_cotenant") -> Path:
    """Where a bundled recording is.

    ``tp4_cotenant`` is four H200 under tensor parallel, KV usage up to 0.67, and another process
    that takes 6 GiB of GPU 1 for a while; ``h200_exhaustion`` is one H200 whose KV pool runs full
    before another process takes 7.5 GiB; for the third see `DEMO`.
    """
    return Path(str(files(__name__) / f"{name}.jsonl"))
