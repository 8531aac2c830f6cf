"""Engines of several processes on CPU: who writes which trace, and what the daemon makes of it."""

import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.daemon import running
from tests.engine.driver import write_model
from tests.engine.server import Server

pytestmark = pytest.mark.engine

START_TIMEOUT_S = 240  # several processes import torch at once
REQUESTS = 24


@pytest.fixture(scope="module", params=["tensor", "data"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Server]]:
    """A server of two ranks of that kind that has served some requests and is idle."""
    cores = sorted(os.sched_getaffinity(0))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("VLLM_CPU_OMP_THREADS_BIND", f"{cores[0]}|{cores[-1]}")
        server = Server(
            write_model(tmp_path_factory.mktemp("model")),
            tmp_path_factory.mktemp("server"),
            {f"--{request.param}-parallel-size": "2"},
        )
    try:
        server.wait(START_TIMEOUT_S)
        prompts = [[*range(10, 106), 200 + i, 300 + i] for i in range(REQUESTS)]
        with ThreadPoolExecutor(REQUESTS) as pool:
            list(pool.map(lambda prompt: server.complete(prompt, 40), prompts))
        yield request.param, server
    finally:
        if server.process.poll() is None:
            server.stop()


def newest(server: Server, engine: int) -> dict[str, Any]:
    """That engine's sample once it is idle; there is exactly one scheduler."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        (path,) = server.trace.glob(f"api.engine.dp{engine}.r0.*.jsonl")
        records = [json.loads(line) for line in path.read_text().splitlines()]
        samples = [record for record in records if record["type"] == "kv"]
        if samples and samples[-1]["running"] == 0 and samples[-1]["page_table"]["tables"] == 0:
            sample: dict[str, Any] = samples[-1]
            return sample
        time.sleep(0.1)  # the trace is a file: it can only be looked at again
    raise TimeoutError("no idle sample in the trace")


def test_each_scheduler_and_each_rank_has_a_file_of_its_own(served: tuple[str, Server]) -> None:
    kind, server = served
    names = sorted(
        path.name.rpartition(".")[0].rpartition(".")[0] for path in server.trace.iterdir()
    )
    assert (
        names
        == {
            "tensor": ["api.engine.dp0.r0", "api.worker.dp0.r0", "api.worker.dp0.r1"],
            "data": [
                "api.engine.dp0.r0",
                "api.engine.dp1.r0",
                "api.worker.dp0.r0",
                "api.worker.dp1.r0",
            ],
        }[kind]
    )


def test_each_rank_tells_who_it_is_and_why_there_is_no_allocator(
    served: tuple[str, Server],
) -> None:
    kind, server = served
    facts = [
        json.loads(path.read_text().splitlines()[0])
        for path in sorted(server.trace.glob("*.worker.*"))
    ]
    told = [(each["engine"], each["rank"], each["reason"]) for each in facts]
    assert (
        told
        == {
            "tensor": [("0", 0, "cuda_unavailable"), ("0", 1, "cuda_unavailable")],
            "data": [("0", 0, "cuda_unavailable"), ("1", 0, "cuda_unavailable")],
        }[kind]
    )
    assert {each["tensor_parallel_size"] for each in facts} == {2 if kind == "tensor" else 1}
    assert len({each["pid"] for each in facts}) == 2


def test_each_engine_counts_what_vllm_counts_of_it(served: tuple[str, Server]) -> None:
    kind, server = served
    queries = 0
    for engine in range(1 if kind == "tensor" else 2):
        cache = newest(server, engine)["prefix_cache"]
        assert cache["query_tokens"] == server.metric("prefix_cache_queries_total", engine)
        assert cache["hit_tokens"] == server.metric("prefix_cache_hits_total", engine)
        queries += cache["query_tokens"]
    assert queries == REQUESTS * 98


def test_the_daemon_shows_one_engine_for_each_scheduler(served: tuple[str, Server]) -> None:
    kind, server = served
    engines = ["0"] if kind == "tensor" else ["0", "1"]
    up = [
        f'vllm_engine_up{{engine="{number}",model_name="served",replica="api"}}'
        for number in engines
    ]
    with running("serve", "--no-nvml", "--trace.path", str(server.trace)) as daemon:
        samples = daemon.wait_for(lambda samples: set(up) <= set(samples))
    assert [series for series in samples if series.startswith("vllm_engine_up")] == up
    assert samples["vllm_memory_exporter_duplicate_identity"] == 0
    assert not [series for series in samples if series.startswith("vllm_rank_imbalance")]
