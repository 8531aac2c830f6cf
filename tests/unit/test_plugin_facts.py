"""Settings and facts out of strange surroundings: what cannot be used is left out."""

import multiprocessing
from types import SimpleNamespace
from typing import Any

import pytest

from exporter.plugin.facts import as_count, as_ratio, as_text, engine_facts, identity, read
from exporter.plugin.settings import TraceSettings


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("model", "model"),
        (["first", "second"], "first"),
        ("", None),
        ([], None),
        (7, None),
        (None, None),
        ("a\nb\x00c", "a?b?c"),
        ("bad\udcff", "bad?"),
        ("x" * 600, "x" * 512),
    ],
)
def test_texts(value: object, expected: str | None) -> None:
    assert as_text(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(0, 0), (5, 5), (-1, None), (True, None), (1.5, None), (2**60, None)]
)
def test_counts(value: object, expected: int | None) -> None:
    assert as_count(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(0.9, 0.9), (1, 1.0), (1.01, None), (float("nan"), None), ("1", None)]
)
def test_ratios(value: object, expected: float | None) -> None:
    assert as_ratio(value) == expected


def test_an_attribute_that_fails_is_none() -> None:
    class Bad:
        @property
        def value(self) -> int:
            raise RuntimeError("no")

    assert read(Bad(), "value") is None
    assert read(SimpleNamespace(a=SimpleNamespace(b=3)), "a.b") == 3
    assert read(SimpleNamespace(a=None), "a.b.c") is None


def config(**parallel: object) -> Any:
    return SimpleNamespace(
        parallel_config=SimpleNamespace(**parallel),
        model_config=SimpleNamespace(served_model_name=["served", "alias"], model="/models/x"),
        cache_config=SimpleNamespace(block_size=16, gpu_memory_utilization="much"),
    )


@pytest.mark.parametrize(
    ("parallel", "engine"),
    [
        ({"data_parallel_index": 3, "data_parallel_rank": 0}, "3"),
        ({"data_parallel_rank": 2}, "2"),
        ({}, "0"),
    ],
)
def test_the_engine_is_the_data_parallel_index(parallel: dict[str, object], engine: str) -> None:
    who = identity(config(**parallel), "node", "engine")
    assert (who.engine, who.model_name) == (engine, "served")


def test_the_file_name_tells_who_writes() -> None:
    who = identity(config(data_parallel_index=1), "../node a/b", "worker", 3)
    start_s = who.start_unix_ns // 10**9
    assert who.file_name == f"_node_a_b.worker.dp1.r3.{who.pid}-{start_s}.jsonl"


def test_what_an_engine_does_not_tell_is_not_there() -> None:
    facts = engine_facts(config(tensor_parallel_size=2), None)
    assert (facts["block_size"], facts["tensor_parallel_size"]) == (16, 2)
    assert facts["gpu_memory_utilization"] is None
    assert facts["num_gpu_blocks"] is None
    assert engine_facts(None)["max_model_len"] is None


@pytest.mark.parametrize(
    ("size", "index", "process", "told"),
    [
        (1, 0, "EngineCore", 1),
        (1, 1, "EngineCore", None),
        (1, 0, "EngineCore_DP0", None),
        (1, 1, "EngineCore_DP1", None),
        (4, 3, "EngineCore_DP3", 4),
        (None, 0, "EngineCore", None),
    ],
    ids=["alone", "dense, by index", "dense, by name", "dense, by both", "experts", "not told"],
)
def test_a_size_that_vllm_reset_in_a_data_parallel_engine_is_not_told(
    size: int | None, index: int, process: str, told: int | None
) -> None:
    of_engine = config(data_parallel_size=size, data_parallel_index=index)
    this = multiprocessing.current_process()
    own_name, this.name = this.name, process
    try:
        assert engine_facts(of_engine)["data_parallel_size"] == told
    finally:
        this.name = own_name


@pytest.mark.parametrize(
    ("text", "interval_s"),
    [("", 1.0), ("0.5", 0.5), ("0", 1.0), ("61", 1.0), ("nan", 1.0), ("soon", 1.0)],
)
def test_settings_that_cannot_be_used_give_way(
    text: str, interval_s: float, caplog: pytest.LogCaptureFixture
) -> None:
    environ = {"VLLM_MEMORY_TRACE_DIR": "/t", "VLLM_MEMORY_TRACE_INTERVAL": text}
    settings = TraceSettings.from_environment(environ)
    assert settings.interval_s == interval_s
    assert len(caplog.records) == (interval_s == 1.0 and text != "")
    assert settings.max_directory_bytes == 32 * 1024 * 1024
    assert settings.replica
