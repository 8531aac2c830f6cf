"""Recordings that come with the program: data files, and where they are."""

from importlib.resources import files
from pathlib import Path


def bundled_path() -> Path:
    """The recording that a demo plays.

    Four H200 under tensor parallel, KV usage up to 0.67, and another process that takes 6 GiB of
    GPU 1 for a while.
    """
    return Path(str(files(__name__) / "tp4_cotenant.jsonl"))
