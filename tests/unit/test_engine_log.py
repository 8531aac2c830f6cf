"""vLLM's stats line as versions, devices and formatters write it."""

import json
from typing import Any

import pytest

from exporter.records.trace import KvRecord
from exporter.sources.engine_log import stats_record

TS_UNIX_NS = 1_795_956_239_000_000_000
TEXT = "(APIServer pid=439) INFO 11-29 12:43:38 [loggers.py:273] "
V0 = (
    "INFO 03-11 09:10:11 [metrics.py:481] Avg prompt throughput: 12.0 tokens/s, Avg generation"
    " throughput: 30.5 tokens/s, Running: 7 reqs, Swapped: 1 reqs, Pending: 5 reqs, "
)
THROUGHPUTS = "Avg prompt throughput: 5845.9 tokens/s, Avg generation throughput: 1614.8 tokens/s, "
STATS = (
    f"Engine 000: {THROUGHPUTS}Running: 15 reqs, Waiting: 3 reqs, GPU KV cache usage: 2.8%, Prefix"
    " cache hit rate: 72.0%"
)


def told(**figures: Any) -> KvRecord:
    given = {"engine": "0", "usage_ratio": 0.028, "running": 15, "waiting": 3, **figures}
    return KvRecord(
        v=1,
        ts_unix_ns=TS_UNIX_NS,
        replica="server",
        interval_s=20.0,
        model_name="",
        origin="log",
        **given,
    )


@pytest.mark.parametrize(
    ("line", "record"),
    [
        pytest.param(TEXT + STATS, told(), id="text"),
        pytest.param("INFO 11-29 12:43:38 [loggers.py:273] " + STATS, told(), id="no process"),
        pytest.param(STATS, told(), id="nothing around it"),
        pytest.param(TEXT + STATS + "\r", told(), id="CRLF"),
        pytest.param(
            "\x1b[0;36m(APIServer pid=439)\x1b[0;0m \x1b[32mINFO\x1b[0m 11-29 12:43:38"
            f" \x1b[90m[loggers.py:273]\x1b[0m {STATS}\x1b[0m",
            told(),
            id="colours",
        ),
        pytest.param("rack-7 " + TEXT + STATS, told(), id="VLLM_LOGGING_PREFIX"),
        pytest.param("2026-11-29T12:43:38.1Z stdout F " + TEXT + STATS, told(), id="CRI"),
        pytest.param(
            json.dumps({"log": TEXT + STATS + "\n", "stream": "stdout"}), told(), id="Docker"
        ),
        pytest.param(json.dumps({"levelname": "INFO", "message": STATS}), told(), id="JSON"),
        pytest.param(json.dumps({"event": STATS, "pid": 439}), told(), id="JSON, another key"),
        pytest.param(
            "(APIServer pid=1354) " + json.dumps({"message": STATS, "process": 1354}),
            told(),
            id="JSON behind vLLM's prefix",
        ),
        pytest.param(
            json.dumps({"message": f"\x1b[1m{STATS}\x1b[0m"}), told(), id="colours in JSON"
        ),
        pytest.param(
            f"Engine 013: {THROUGHPUTS}Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%,"
            " Prefix cache hit rate: 0.0%",
            told(engine="13", usage_ratio=0.0, running=1, waiting=0),
            id="0.10 of the 14th data-parallel rank",
        ),
        pytest.param(
            f"Engine 000: {THROUGHPUTS}Running: 15 reqs, Waiting: 3 reqs, Deferred: 2 reqs,"
            " Preemptions: 40, GPU KV cache usage: 100.0%, Prefix cache hit rate: 1.0%, Corrupted:"
            " 1 reqs, External prefix cache hit rate: 9.0%, MM cache hit rate: 8.0%",
            told(usage_ratio=1.0),
            id="0.20 with all that may be there",
        ),
        pytest.param(
            f"Engine 000: {THROUGHPUTS}Running: 36 reqs, Waiting: 0 reqs, CPU KV cache usage:"
            " 84.7%, Prefix cache hit rate: 0.0%",
            told(usage_ratio=0.847, running=36, waiting=0),
            id="0.30 on a CPU",
        ),
        pytest.param(
            f"Engine 000: {THROUGHPUTS}Running: 15 reqs, Waiting: 3 reqs, XPU KV cache usage: 2.8%",
            told(),
            id="0.32 before the first hit rate, on another device",
        ),
        pytest.param(
            f"Engine 000: {THROUGHPUTS}Running: 15 reqs, Waiting: 3 reqs, KV fetch: 4 waiting to"
            " start, 5 in progress, 6 completed waiting, GPU KV cache usage: 2.8%, Prefix cache hit"
            " rate: 72.0%",
            told(),
            id="0.32 with KV fetch",
        ),
        pytest.param(
            f"4 Engines Aggregated: {THROUGHPUTS}Running: 60 reqs, Waiting: 9 reqs, GPU KV cache"
            " usage: 53.5%, Prefix cache hit rate: 72.0%",
            told(engine="", usage_ratio=None, running=60, waiting=9),
            id="several engines: their usage is a mean, so no usage of any",
        ),
        pytest.param(
            V0 + "GPU KV cache usage: 12.3%, CPU KV cache usage: 4.5%.",
            told(engine="", usage_ratio=0.123, running=7, waiting=5),
            id="V0: the CPU is swap space",
        ),
        pytest.param(
            V0 + "CPU KV cache usage: 4.5%, GPU KV cache usage: 12.3%.",
            told(engine="", usage_ratio=0.123, running=7, waiting=5),
            id="V0 the other way round",
        ),
        pytest.param(
            STATS.replace("2.8%", "280%"), told(usage_ratio=None), id="more than all of the pool"
        ),
        pytest.param(
            STATS.replace("15 reqs", "9" * 400 + " reqs"), told(running=None), id="absurd number"
        ),
    ],
)
def test_a_stats_line_tells_usage_and_requests(line: str, record: KvRecord) -> None:
    assert stats_record(line, "server", TS_UNIX_NS) == record


@pytest.mark.parametrize(
    "line",
    [
        "",
        TEXT + "Prefix cache hit rate: GPU: 12.00%, CPU: 0.00%",
        "(EngineCore pid=677) INFO 11-29 12:42:57 [x.py:1] GPU KV cache size: 897,280 tokens",
        TEXT + "Engine 000: Iteration(7): 1 context requests, 445 context tokens, 0 generation"
        " requests, 0 generation tokens, iteration elapsed time: 5.76 ms, CPU KV cache usage: 5.5%",
        TEXT + f"Received request cmpl-1: prompt: '{STATS}', params: SamplingParams(n=1)",
        TEXT + f"Received request cmpl-1: prompt: '{STATS} ', params: SamplingParams(n=1)",
        TEXT + STATS.replace("72.0%", "72.0%" + " " * 5000),
    ],
    ids=["empty", "V0 hit rate", "start-up", "iteration", "prompt", "prompt's space", "too long"],
)
def test_no_other_line_is_one(line: str) -> None:
    assert stats_record(line, "server", TS_UNIX_NS) is None
