"""The source of one server's /metrics: what becomes a record, and what it says of bad answers."""

from collections.abc import Iterator

import msgspec
import pytest

from exporter.clock import ManualClock
from exporter.errors import SourceUnavailable
from exporter.records.codec import decode_line, encode_line
from exporter.records.source import Source
from exporter.records.trace import (
    Blocks,
    EngineRecord,
    KvRecord,
    PrefixCache,
    TraceReading,
)
from exporter.sources.engine_metrics import EngineMetricsSource
from exporter.sources.engine_url import read_engine_urls
from tests.engine_server import SAMPLES, EngineServer, serving

NOW_NS = 1_795_956_239_000_000_000
ONE = '{engine="0",model_name="m"}'


class Asked:
    """A source and the server that it asks; `kv` is its one scheduler record."""

    def __init__(self, server: EngineServer) -> None:
        self.server = server
        (url,) = read_engine_urls([f"blue={server.url}"])
        self.source = EngineMetricsSource(url, ManualClock(NOW_NS))

    def read(self, body: bytes | str) -> TraceReading:
        self.server.body = body.encode() if isinstance(body, str) else body
        return self.source.read()

    def kv(self, body: bytes | str) -> KvRecord:
        (record,) = (r for r in self.read(body).records if isinstance(r, KvRecord))
        return record

    def facts(self, body: bytes | str) -> EngineRecord:
        (record,) = (r for r in self.read(body).records if isinstance(r, EngineRecord))
        return record


@pytest.fixture
def asked() -> Iterator[Asked]:
    with serving() as server:
        yield Asked(server)


def sample(name: str) -> bytes:
    return (SAMPLES / name).read_bytes()


def test_it_is_a_source_with_a_name_of_its_own(asked: Asked) -> None:
    source: Source = asked.source
    assert (source.name, source.interval_s, dict(source.errors)) == (
        "engine_metrics:blue",
        1.0,
        {},
    )


def test_a_busy_server_gives_facts_and_the_exact_pool(asked: Asked) -> None:
    assert asked.read(sample("vllm_0.30.0_busy.txt")) == TraceReading(
        records=(
            EngineRecord(
                v=1,
                ts_unix_ns=NOW_NS,
                replica="blue",
                engine="0",
                interval_s=1.0,
                model_name="served",
                origin="metrics",
                block_size=32,
                num_gpu_blocks=40,
                gpu_memory_utilization=0.92,
                cache_dtype="auto",
                enable_prefix_caching=True,
                sleep_level=0,
            ),
            KvRecord(
                v=1,
                ts_unix_ns=NOW_NS,
                replica="blue",
                engine="0",
                interval_s=1.0,
                model_name="served",
                origin="metrics",
                block_size=32,
                blocks=Blocks(total=40, num_free=2),
                prefix_cache=PrefixCache(query_tokens=1568, hit_tokens=1440),
                preemptions=9,
                running=5,
                waiting=19,
            ),
        ),
        lines={},
        dropped_bytes=0,
        files=0,
    )
    assert not asked.source.errors


def test_an_idle_server_of_0_25(asked: Asked) -> None:
    record = asked.kv(sample("vllm_0.25.1_idle.txt"))
    assert record.blocks == Blocks(total=56_080, num_free=56_079)
    assert record.prefix_cache == PrefixCache(query_tokens=4_089_047, hit_tokens=2_346_544)
    assert (record.preemptions, record.running, record.waiting) == (0, 0, 0)


def test_each_engine_has_its_records(asked: Asked) -> None:
    records = asked.read(sample("vllm_0.30.0_two_engines.txt")).records
    assert [(type(record).__name__, record.engine) for record in records] == [
        ("EngineRecord", "0"),
        ("KvRecord", "0"),
        ("EngineRecord", "1"),
        ("KvRecord", "1"),
    ]


def test_of_several_engines_only_the_sum_of_their_pools_is_told_so_each_is_a_ratio(
    asked: Asked,
) -> None:
    records = asked.read(sample("vllm_0.30.0_two_engines.txt")).records
    assert [
        (record.usage_ratio, record.blocks) for record in records if isinstance(record, KvRecord)
    ] == [(12 / 39, None), (36 / 39, None)]
    assert [record.num_gpu_blocks for record in records if isinstance(record, EngineRecord)] == [
        None,
        None,
    ]
    idle = sample("vllm_0.30.0_two_engines.txt").replace(b"0.9230769230769231", b"0.0")
    assert [
        (record.usage_ratio, record.blocks)
        for record in asked.read(idle).records
        if isinstance(record, KvRecord)
    ] == [(12 / 39, None), (0.0, None)]


def test_the_records_can_be_recorded(asked: Asked) -> None:
    for record in asked.read(sample("vllm_0.30.0_busy.txt")).records:
        assert decode_line(encode_line(record)) == record


def test_an_old_server_by_its_old_names(asked: Asked) -> None:
    record = asked.kv(
        "# HELP vllm:gpu_prefix_cache_queries_total GPU prefix cache queries, in tokens.\n"
        f"vllm:gpu_cache_usage_perc{ONE} 0.25\n"
        f"vllm:gpu_prefix_cache_queries_total{ONE} 900\n"
        f"vllm:gpu_prefix_cache_hits_total{ONE} 360\n"
        f"vllm:num_requests_running{ONE} 3\n"
        f"vllm:num_requests_waiting{ONE} 4\n"
        'vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="41"} 1.0\n'
    )
    assert record.blocks == Blocks(total=41, num_free=30)
    assert record.prefix_cache == PrefixCache(query_tokens=900, hit_tokens=360)
    assert (record.running, record.waiting, record.preemptions) == (3, 4, None)


def test_a_v0_engine_has_no_null_block_so_its_pool_stays_unknown(asked: Asked) -> None:
    record = asked.kv(
        'vllm:gpu_cache_usage_perc{model_name="m"} 0.5\n'
        'vllm:cpu_cache_usage_perc{model_name="m"} 0.0\n'
        'vllm:cache_config_info{block_size="16",num_gpu_blocks="41"} 1.0\n'
    )
    assert (record.engine, record.usage_ratio, record.blocks) == ("0", 0.5, None)


@pytest.mark.parametrize("total", [2, 40, 6000, 56_080, 1_000_003])
def test_every_usage_that_vllm_can_tell_gives_back_its_blocks(asked: Asked, total: int) -> None:
    info = f'vllm:cache_config_info{{engine="0",num_gpu_blocks="{total}"}} 1.0\n'
    usable = total - 1
    for free in {0, 1, usable // 3, usable // 2, usable - 1, usable}:
        usage = 1.0 - free / usable
        record = asked.kv(f"vllm:kv_cache_usage_perc{ONE} {usage!r}\n{info}")
        assert record.blocks == Blocks(total=total, num_free=free)
        assert record.usage_ratio is None


@pytest.mark.parametrize(
    ("usage", "num_gpu_blocks"),
    [("0.9487", "40"), ("0.9487179487179487", "41"), ("0.5", "None"), ("0.5", "0"), ("0.5", "x")],
    ids=["rounded", "of another pool", "unknown pool", "empty pool", "no number"],
)
def test_a_usage_that_is_no_share_of_the_pool_stays_a_ratio(
    asked: Asked, usage: str, num_gpu_blocks: str
) -> None:
    record = asked.kv(
        f"vllm:kv_cache_usage_perc{ONE} {usage}\n"
        f'vllm:cache_config_info{{engine="0",num_gpu_blocks="{num_gpu_blocks}"}} 1.0\n'
    )
    assert (record.usage_ratio, record.blocks) == (float(usage), None)


def test_waiting_is_the_sum_of_its_reasons_where_only_they_are_told(asked: Asked) -> None:
    record = asked.kv(
        'vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 4\n'
        'vllm:num_requests_waiting_by_reason{engine="0",reason="deferred"} 3\n'
    )
    assert record.waiting == 7


def test_more_hits_than_queries_are_neither(asked: Asked) -> None:
    text = f"vllm:prefix_cache_queries_total{ONE} 5\nvllm:prefix_cache_hits_total{ONE} 6\n"
    assert asked.kv(text).prefix_cache is None


@pytest.mark.parametrize(
    ("states", "level"),
    [
        ({"awake": 1, "weights_offloaded": 0, "discard_all": 0}, 0),
        ({"awake": 0, "weights_offloaded": 1, "discard_all": 0}, 1),
        ({"awake": 0, "weights_offloaded": 1, "discard_all": 1}, 2),
        ({"awake": 0}, None),
        ({"dreaming": 1}, None),
    ],
)
def test_sleep_levels(asked: Asked, states: dict[str, int], level: int | None) -> None:
    text = "".join(
        f'vllm:engine_sleep_state{{engine="0",sleep_state="{state}"}} {value}\n'
        for state, value in states.items()
    )
    assert asked.facts(text).sleep_level == level


def test_c1_figures_that_every_version_tells_are_missed(asked: Asked) -> None:
    asked.read(f"vllm:num_requests_running{ONE} NaN\n")
    asked.read(f"vllm:num_requests_running{ONE} 1\nvllm:num_requests_waiting{{ 1\n")
    assert asked.source.errors == {
        "invalid_running": 1,
        "malformed_line": 1,
        "missing_usage": 2,
        "missing_waiting": 2,
    }


def test_an_answer_without_vllms_metrics_makes_the_source_unavailable(asked: Asked) -> None:
    with pytest.raises(SourceUnavailable) as caught:
        asked.read(b"<html><body>It works!</body></html>")
    assert (caught.value.reason, caught.value.backs_off) == ("no_vllm_metrics", False)
    assert str(caught.value) == (
        f"{asked.server.url}/metrics answers without metrics of vLLM; let --engine.url name"
        " vLLM's API server, started without --disable-log-stats"
    )


def test_a_server_that_fails_makes_the_source_unavailable(asked: Asked) -> None:
    asked.server.status = 503
    with pytest.raises(SourceUnavailable) as caught:
        asked.read(sample("vllm_0.30.0_busy.txt"))
    assert caught.value.reason == "http_status"


def test_a_huge_model_name_still_fits_a_record(asked: Asked) -> None:
    record = asked.kv(f'vllm:num_requests_running{{engine="0",model_name="{"é" * 900}"}} 1\n')
    assert record.model_name == "é" * 512
    assert msgspec.json.decode(msgspec.json.encode(record), type=KvRecord) == record


def test_more_engines_than_anyone_has_are_cut_off(asked: Asked) -> None:
    text = "".join(f'vllm:num_requests_running{{engine="{engine}"}} 1\n' for engine in range(1000))
    assert len(asked.read(text).records) == 2 * 256
