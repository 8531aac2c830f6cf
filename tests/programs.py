"""Programs that a test needs and this machine may lack."""

import os
import shutil

import pytest


def require_program(name: str) -> str:
    """The path of the program; without it the test skips, or fails where CI promises it."""
    path = shutil.which(name)
    if path is None and os.environ.get("CI") == "true":
        pytest.fail(f"{name} is missing, and CI must have it")
    if path is None:
        pytest.skip(f"{name} is not installed here")
    return path
