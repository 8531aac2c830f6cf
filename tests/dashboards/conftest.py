"""Grafana's types come from npm: their test is left out without, or fails where required."""

import os
from pathlib import Path

import pytest

NODE_MODULES = Path(__file__).parents[2] / ".npm-dashboards/node_modules"

if not NODE_MODULES.exists():
    if os.environ.get("REQUIRE_TYPES"):
        raise pytest.UsageError("Grafana's types are missing: run `make test-dashboards`")
    collect_ignore = ["test_types.py"]
