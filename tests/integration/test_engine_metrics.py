"""The program beside vLLM servers without the plugin: their own /metrics and their log."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon import run, running
from tests.engine_server import SAMPLES, EngineServer, serving

HERE = socket.gethostname()
UP = f'vllm_memory_exporter_source_up{{source="engine_metrics:{HERE}"}}'
BUSY = (SAMPLES / "vllm_0.30.0_busy.txt").read_bytes()
STATS_LINE = (
    "(APIServer pid=439) INFO 11-29 12:43:38 [loggers.py:273] Engine 000: Avg prompt throughput:"
    " 5845.9 tokens/s, Avg generation throughput: 1614.8 tokens/s, Running: 15 reqs, Waiting: 3"
    " reqs, GPU KV cache usage: 2.8%, Prefix cache hit rate: 72.0%\n"
)


@pytest.fixture
def server() -> Iterator[EngineServer]:
    with serving(BUSY) as server:
        yield server


def test_a_server_without_the_plugin_is_seen_by_its_own_metrics(server: EngineServer) -> None:
    with running("serve", "--no-nvml", "--engine.url", server.url) as daemon:
        engine = f'engine="0",model_name="served",replica="{HERE}"'
        usage = f"vllm_kv_cache_usage_ratio{{{engine}}}"
        samples = daemon.wait_for(lambda samples: usage in samples)
        assert samples[UP] == 1
        assert samples[f"vllm_engine_up{{{engine}}}"] == 1
        assert samples[usage] == 37 / 39
        assert samples[f'vllm_kv_cache_blocks{{{engine},state="active"}}'] == 37
        assert samples[f'vllm_kv_cache_blocks{{{engine},state="null"}}'] == 1
        assert f'vllm_kv_cache_blocks{{{engine},state="cached"}}' not in samples
        assert samples[f"vllm_kv_cache_headroom_tokens{{{engine}}}"] == 2 * 32
        assert samples[f'vllm_engine_requests{{{engine},state="waiting"}}'] == 19
        assert samples[f"vllm_engine_preemptions_total{{{engine}}}"] == 9
        assert samples[f"vllm_kv_cache_query_tokens_total{{{engine}}}"] == 1568
        (info,) = (series for series in samples if series.startswith("vllm_engine_info"))
        assert 'num_gpu_blocks="40"' in info
        assert not [
            s for s in samples if s.startswith(("vllm_page_table", "vllm_plugin", "vllm_scheduled"))
        ]
        assert not [line for line in daemon.log if "--trace.path" in line]


def test_the_hit_ratio_comes_from_the_growth_of_its_counters(server: EngineServer) -> None:
    with running("serve", "--no-nvml", "--engine.url", f"blue={server.url}") as daemon:
        ratio = 'vllm_kv_cache_hit_ratio{engine="0",model_name="served",replica="blue"}'
        daemon.wait_for(lambda samples: any("query_tokens" in series for series in samples))
        assert ratio not in daemon.samples()
        grown = BUSY.replace(b'"served"} 1568.0', b'"served"} 1968.0')  # 400 asked for
        server.body = grown.replace(b'"served"} 1440.0', b'"served"} 1540.0')  # 100 found
        samples = daemon.wait_for(lambda samples: ratio in samples)
        assert samples[ratio] == 0.25


def test_a_server_that_goes_away_is_down_and_comes_back(server: EngineServer) -> None:
    with running("serve", "--no-nvml", "--engine.url", server.url) as daemon:
        up = f'vllm_engine_up{{engine="0",model_name="served",replica="{HERE}"}}'
        daemon.wait_for(lambda samples: samples.get(up) == 1)
        server.status = 503
        samples = daemon.wait_for(lambda samples: samples[up] == 0)
        assert samples[UP] == 0
        assert not [series for series in samples if series.startswith("vllm_kv_cache")]
        assert daemon.wait_for_log(re.compile(r"source engine_metrics:\S+: down: .*status 503"))
        server.status = 200
        daemon.wait_for(lambda samples: samples[up] == 1)
        errors = f'source_errors_total{{reason="http_status",source="engine_metrics:{HERE}"}}'
        assert daemon.samples()[f"vllm_memory_exporter_{errors}"] >= 1


def test_a_server_that_starts_again_is_seen_at_the_next_look(server: EngineServer) -> None:
    with running("serve", "--no-nvml", "--engine.url", server.url) as daemon:
        daemon.wait_for(lambda samples: samples.get(UP) == 1)
        server.status = 503
        errors = f'{{reason="http_status",source="engine_metrics:{HERE}"}}'
        series = f"vllm_memory_exporter_source_errors_total{errors}"
        daemon.wait_for(lambda samples: samples.get(series, 0) >= 6)  # backing off, after 30 s
        server.status = 200
        daemon.wait_for(lambda samples: samples.get(UP) == 1)
        assert daemon.samples()[series] <= 7


def test_several_servers_are_several_sources(server: EngineServer) -> None:
    with serving((SAMPLES / "vllm_0.30.0_two_engines.txt").read_bytes()) as other:
        urls = ("--engine.url", server.url, "--engine.url", f"pair={other.url}")
        with running("serve", "--no-nvml", *urls) as daemon:
            samples = daemon.wait_for(
                lambda samples: sum(series.startswith("vllm_engine_up") for series in samples) == 3
            )
            assert (
                samples[
                    f'vllm_memory_exporter_source_up{{source="engine_metrics:{server.url[7:]}"}}'
                ]
                == 1
            )
            assert samples['vllm_memory_exporter_source_up{source="engine_metrics:pair"}'] == 1
            pair = 'model_name="served",replica="pair"'
            assert samples[f'vllm_kv_cache_usage_ratio{{engine="0",{pair}}}'] == 12 / 39
            assert samples[f'vllm_kv_cache_usage_ratio{{engine="1",{pair}}}'] == 36 / 39


def test_credentials_appear_nowhere(server: EngineServer) -> None:
    url = server.url.replace("//", "//me:secret@")
    server.status = 403
    with running("serve", "--no-nvml", "--log.level", "debug", "--engine.url", url) as daemon:
        daemon.wait_for_log(re.compile("status 403"))
        assert server.requests[0][1]["Authorization"] == "Basic bWU6c2VjcmV0"
        for path in ("/", "/metrics", "/api/view"):
            assert b"secret" not in daemon.get(path)[1]
        assert not [line for line in daemon.log if "secret" in line]


def test_a_wrong_url_is_a_mistake_of_one_line_without_credentials() -> None:
    ended = run("serve", "--engine.url", "ftp://me:secret@vllm", "--engine.url", "http://vllm")
    assert ended.returncode == 2
    assert ended.stderr == (
        "vllm-memory-exporter: --engine.url: '***@vllm' is not allowed; use http:// or https://,"
        " a host, and perhaps :PORT and /PATH; NAME= may precede\n"
    )


def test_a_log_tells_usage_and_requests_and_no_hit_ratio(tmp_path: Path) -> None:
    log = tmp_path / "blue.log"
    log.write_text("INFO 11-29 12:42:57 starting\n" + STATS_LINE)
    with running("serve", "--no-nvml", "--trace.path", str(log)) as daemon:
        engine = 'engine="0",model_name="",replica="blue"'
        usage = f"vllm_kv_cache_usage_ratio{{{engine}}}"
        samples = daemon.wait_for(lambda samples: usage in samples)
        assert samples[usage] == 0.028
        assert samples[f'vllm_engine_requests{{{engine},state="running"}}'] == 15
        assert samples['vllm_memory_exporter_trace_lines_total{outcome="accepted"}'] == 1
        told = {series.partition("{")[0] for series in samples if series.startswith("vllm_")}
        assert {name for name in told if not name.startswith("vllm_memory_exporter")} == {
            "vllm_engine_up",
            "vllm_engine_restarts_total",
            "vllm_engine_requests",
            "vllm_kv_cache_usage_ratio",
            "vllm_kv_cache_usage_window_min_ratio",
            "vllm_kv_cache_usage_window_max_ratio",
            "vllm_kv_cache_usage_window_mean_ratio",
        }
