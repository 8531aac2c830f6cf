"""Programs of the deployment suite's own environment."""

import sys
from pathlib import Path


def tool(name: str) -> Path:
    """A program that was installed beside this Python."""
    return Path(sys.executable).with_name(name)
