"""The engine suite needs the real vLLM: without it, it is left out, or fails where required."""

import importlib.util
import os

import pytest

HAS_VLLM = importlib.util.find_spec("vllm") is not None

if not HAS_VLLM:
    if os.environ.get("REQUIRE_ENGINE"):
        raise pytest.UsageError("vllm cannot be imported: run `make test-engine`")
    collect_ignore_glob = ["test_*.py"]
