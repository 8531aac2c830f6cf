"""The deployment suite needs tools of its own: it is left out without, or fails where required."""

import importlib.util
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

if importlib.util.find_spec("kubernetes_validate") is None:
    if os.environ.get("REQUIRE_DEPLOY"):
        raise pytest.UsageError("its tools are missing: run `make test-deploy`")
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="module")
def public_directory() -> Iterator[Path]:
    """An empty directory that every user may read, unlike pytest's own."""
    directory = Path(tempfile.mkdtemp(prefix="deploy-"))
    directory.chmod(0o755)
    yield directory
    subprocess.run(["chmod", "-R", "u+w", directory], check=True)
    subprocess.run(["rm", "-r", directory], check=True)
