"""The plugin inside whole engines on CPU, found and loaded by vLLM itself."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import running
from tests.engine.driver import write_model
from tests.engine.run_llm import NO_MORE_ROOM
from tests.engine.server import START_TIMEOUT_S, Server
from tests.prometheus import prometheus

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"))


def run_llm(model: Path, *flags: str, **environment: str) -> tuple[dict[str, Any], str]:
    """What an engine generates in a process of its own, and its log."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.run_llm", str(model), *flags],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=START_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result: dict[str, Any] = json.loads(done.stdout.strip().rpartition("\n")[2])
    return result, done.stdout + done.stderr


@pytest.fixture(scope="module")
def plain(model: Path) -> list[list[int]]:
    """The tokens that come out without the plugin."""
    result, _ = run_llm(model)
    assert not result["plugin"]
    tokens: list[list[int]] = result["tokens"]
    return tokens


def records(directory: Path, role: str) -> list[dict[str, Any]]:
    """All records of the one file of that role."""
    (path,) = directory.glob(f"*.{role}.dp0.r0.*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_an_engine_in_this_process_generates_the_same_and_leaves_a_trace(
    model: Path, plain: list[list[int]], tmp_path: Path
) -> None:
    directory = tmp_path / "trace"
    result, _ = run_llm(
        model, VLLM_MEMORY_TRACE_DIR=str(directory), VLLM_MEMORY_TRACE_REPLICA="one"
    )
    assert result == {"tokens": plain, "plugin": True}
    facts, *samples = records(directory, "engine")
    assert (facts["type"], facts["status"]) == ("engine", "active")
    assert (facts["replica"], facts["model_name"], facts["engine"]) == ("one", "small", "0")
    assert (facts["num_gpu_blocks"], facts["block_size"]) == (48, 32)
    last = samples[-1]
    assert last["tokens"] == {"prompt": 102 + 15 * (102 - 96), "generation": 16 * 39}
    assert last["prefix_cache"] == {"query_tokens": 16 * 102, "hit_tokens": 15 * 96}
    assert last["page_table"] == {
        "num_pages": 0,
        "contiguous_pages": 0,
        "descending_pages": 0,
        "tables": 0,
    }
    assert (last["running"], last["waiting"]) == (0, 0)
    (worker,) = records(directory, "worker")
    assert (worker["status"], worker["reason"]) == ("unsupported", "cuda_unavailable")


@pytest.mark.parametrize("fault", ["a file in its place", "no more room", "removed"])
def test_a_bad_trace_directory_costs_the_engine_nothing(
    model: Path, plain: list[list[int]], tmp_path: Path, fault: str
) -> None:
    directory = tmp_path / "trace"
    if fault == "a file in its place":
        directory.touch()
    elif fault == "removed":
        directory = tmp_path / "gone" / "with its parent"
    result, log = run_llm(
        model,
        *([NO_MORE_ROOM] if fault == "no more room" else []),
        VLLM_MEMORY_TRACE_DIR=str(directory),
        VLLM_MEMORY_TRACE_INTERVAL="0.1",
    )
    assert result == {"tokens": plain, "plugin": True}
    told = re.findall(r"the memory trace cannot be written to \S+\.engine\.", log)
    assert len(told) == (fault != "removed")


@pytest.fixture(scope="module")
def server(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(model, tmp_path_factory.mktemp("server"))
    try:
        started.wait()
        yield started
    finally:
        if started.process.poll() is None:
            started.stop()


def test_queries_hits_and_preemptions_equal_vllms_own_metrics(server: Server) -> None:
    shared = list(range(10, 106))
    prompts = [[*shared, 200 + i, 300 + i] for i in range(24)]
    with ThreadPoolExecutor(24) as pool:
        list(pool.map(lambda prompt: server.complete(prompt, 150), prompts))
    published = {
        name: server.metric(f"{name}_total")
        for name in ("prefix_cache_queries", "prefix_cache_hits", "num_preemptions")
    }
    live = latest(server)
    assert live["replica"] == "api"
    assert live["model_name"] == "served"
    cache = live["prefix_cache"]
    assert published["prefix_cache_hits"] > 0
    assert published["num_preemptions"] > 0
    assert (cache["query_tokens"], cache["hit_tokens"], live["preemptions"]) == (
        published["prefix_cache_queries"],
        published["prefix_cache_hits"],
        published["num_preemptions"],
    )
    assert (cache["vllm_query_tokens"], cache["vllm_hit_tokens"]) == (
        published["prefix_cache_queries"],
        published["prefix_cache_hits"],
    )
    assert live["tokens"]["generation"] >= 24 * 149


def test_plugin_daemon_and_prometheus_tell_what_vllm_tells(server: Server, tmp_path: Path) -> None:
    own = {
        "vllm_kv_cache_query_tokens_total": "prefix_cache_queries",
        "vllm_kv_cache_hit_tokens_total": "prefix_cache_hits",
        "vllm_engine_preemptions_total": "num_preemptions",
    }
    flags = ("--no-nvml", "--trace.path", str(server.trace))
    with (
        running("serve", *flags) as daemon,
        prometheus(daemon.address, tmp_path) as scraping,
        ThreadPoolExecutor(24) as pool,
    ):
        labels = '{engine="0",model_name="served",replica="api"}'
        prompts = [[*range(10, 106), 400 + i, 500 + i] for i in range(24)]
        list(pool.map(lambda prompt: server.complete(prompt, 150), prompts))
        latest(server)
        for ours, vllms in own.items():
            published = server.metric(f"{vllms}_total")
            assert published > 0
            told = scraping.wait_for(ours + labels, is_right=published.__eq__)
            assert list(told.values()) == [published]
        (usage,) = scraping.wait_for(f"vllm_kv_cache_usage_window_max_ratio{labels}").values()
        assert usage == 1
        status = scraping.wait_for('vllm_plugin_info{reason="worker: cuda_unavailable"}')
        assert len(status) == 1


def latest(server: Server) -> dict[str, Any]:
    """The sample of an engine that has become idle."""
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        samples = [r for r in records(server.trace, "engine") if r["type"] == "kv"]
        if samples and samples[-1]["running"] == 0 and samples[-1]["page_table"]["tables"] == 0:
            return samples[-1]
        time.sleep(0.1)  # the trace is a file: it can only be looked at again
    raise TimeoutError("no idle sample in the trace")


def test_the_trace_can_be_read_by_another_user_and_only_it_is_there(server: Server) -> None:
    names = sorted(path.name for path in server.trace.iterdir())
    assert [name.split(".")[1] for name in names] == ["engine", "worker"]
    for path in server.trace.iterdir():
        assert path.stat().st_mode & 0o777 == 0o644


def test_a_removed_directory_comes_back_while_the_engine_serves(server: Server) -> None:
    latest(server)
    shutil.rmtree(server.trace)
    server.complete([5, 6, 7], 10)
    deadline = time.monotonic() + 15
    while not list(server.trace.glob("*.engine.*")) and time.monotonic() < deadline:
        time.sleep(0.1)  # as above
    latest(server)
    assert records(server.trace, "engine")[0]["type"] == "engine"


def test_the_server_stops_when_told(server: Server) -> None:
    server.stop()
    assert "memory trace" not in server.log.read_text()
