"""New settings while the program runs: what takes effect, what stays, what is refused."""

import http.client
import json
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon import TIMEOUT_S, Daemon, running
from tests.fake_nvml import FakeGpu, Scenario, environment

SUCCESSFUL = "vllm_memory_exporter_config_last_reload_successful"
LOADED_AT = "vllm_memory_exporter_config_last_reload_success_timestamp_seconds"
LINES = 'vllm_memory_exporter_trace_lines_total{outcome="accepted"}'
GPU = 'device="cuda:0",uuid="GPU-0000000a-0000-0000-0000-000000000000"'
SETTINGS = """
nvml: {{interval: {interval}}}
trace: {{path: [{paths}]}}
log: {{level: {level}}}
"""


class Config:
    """The file that the program is given, and the two directories that it may name."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "exporter.yml"
        self.first, self.second = directory / "first", directory / "second"
        for trace in (self.first, self.second):
            trace.mkdir()

    def write(self, *paths: Path, interval: str = "500ms", level: str = "info") -> None:
        shown = ", ".join(map(str, paths))
        self.path.write_text(SETTINGS.format(interval=interval, paths=shown, level=level))


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(tmp_path)


@pytest.fixture
def daemon(config: Config, fake_nvml_library: Path, tmp_path: Path) -> Iterator[Daemon]:
    """A daemon that samples every 500 ms, follows the first directory and may be told to reload."""
    scenario = tmp_path / "scenario"
    Scenario(
        gpus=[FakeGpu(uuid="GPU-0000000a-0000-0000-0000-000000000000", memory_used=1000)]
    ).write(scenario)
    config.write(config.first)
    write_kv(config.first / "a.jsonl", queries=500)
    with running(
        "serve",
        "--config.file",
        str(config.path),
        "--web.enable-lifecycle",
        environment=environment(fake_nvml_library, scenario),
    ) as started:
        started.wait_for(lambda samples: samples.get(LINES) == 1 and f"gpu_up{{{GPU}}}" in samples)
        yield started


def write_kv(path: Path, queries: int) -> None:
    """Add a record of an engine named like the file, of now and good for an hour."""
    with path.open("a") as file:
        file.write(
            f'{{"v":1,"type":"kv","ts_unix_ns":{time.time_ns()},"pid":10,"replica":"{path.stem}",'
            f'"engine":"0","interval_s":1200,"model_name":"m",'
            f'"prefix_cache":{{"query_tokens":{queries},"hit_tokens":0}}}}\n'
        )


def queries_of(replica: str) -> str:
    labels = f'{{engine="0",model_name="m",replica="{replica}"}}'
    return f"vllm_kv_cache_query_tokens_total{labels}"


def post(daemon: Daemon, path: str = "/-/reload", method: str = "POST") -> tuple[int, str]:
    connection = http.client.HTTPConnection(daemon.address, timeout=TIMEOUT_S)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_a_good_file_takes_effect_and_keeps_windows_and_counters(
    daemon: Daemon, config: Config
) -> None:
    before = daemon.samples()
    assert before[SUCCESSFUL] == 1
    write_kv(config.second / "b.jsonl", queries=70)
    config.write(config.first, config.second, interval="100ms")
    assert post(daemon) == (200, "reloaded\n")
    samples = daemon.wait_for(lambda samples: samples.get(queries_of("b")) == 70)
    assert json.loads(daemon.get("/api/view")[1])["interval_s"] == 0.1
    assert samples[queries_of("a")] == 500
    assert samples[LINES] == 2
    assert samples[LOADED_AT] > before[LOADED_AT]
    histogram = f"gpu_memory_pressure_sample_ratio_count{{{GPU}}}"
    assert samples[histogram] >= before[histogram] >= 1


def test_a_trace_path_that_goes_and_comes_back_is_read_on_where_it_was_left(
    daemon: Daemon, config: Config
) -> None:
    config.write(config.second)
    post(daemon)
    write_kv(config.second / "b.jsonl", queries=70)
    daemon.wait_for(lambda samples: samples.get(queries_of("b")) == 70)
    write_kv(config.first / "a.jsonl", queries=510)
    config.write(config.first)
    post(daemon)
    samples = daemon.wait_for(lambda samples: samples.get(LINES) == 3)
    assert samples[queries_of("a")] == 510  # read again, 500 after 510 would be a restart


def test_sighup_reloads_too(daemon: Daemon, config: Config) -> None:
    write_kv(config.second / "b.jsonl", queries=70)
    config.write(config.first, config.second)
    daemon.process.send_signal(signal.SIGHUP)
    daemon.wait_for(lambda samples: samples.get(queries_of("b")) == 70)
    daemon.wait_for_log(re.compile("settings loaded again"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nvml: {interval: 1ms}", "nvml.interval: '1ms' is not allowed"),
        ("nvml: [", "not YAML"),
        (
            'web: {telemetry-path: "/other"}',
            "web.telemetry-path: cannot change from '/metrics' to '/other' while it runs",
        ),
        (
            "nvml: {enabled: false}",
            "nvml.enabled: cannot change from True to False while it runs: the GPUs that were seen",
        ),
        (
            "replay: /tmp/x.jsonl",
            "replay: cannot change from None to '/tmp/x.jsonl' while it runs: histories of a",
        ),
    ],
)
def test_a_bad_file_changes_nothing_and_is_told_everywhere(
    daemon: Daemon, config: Config, text: str, told: str
) -> None:
    before = daemon.samples()
    config.path.write_text(f"{text}\n")
    status, body = post(daemon)
    assert status == 500
    assert told in body
    daemon.wait_for_log(re.compile("the former ones stay: .*" + re.escape(told.split(" ")[0])))
    samples = daemon.wait_for(lambda samples: samples[SUCCESSFUL] == 0)
    assert samples[LOADED_AT] == before[LOADED_AT]
    write_kv(config.first / "a.jsonl", queries=510)
    daemon.wait_for(lambda samples: samples.get(queries_of("a")) == 510)
    config.write(config.first)
    assert post(daemon)[0] == 200
    daemon.wait_for(lambda samples: samples[SUCCESSFUL] == 1)


def test_the_log_level_changes(daemon: Daemon, config: Config) -> None:
    config.write(config.first, level="error")
    assert post(daemon)[0] == 200
    config.write(config.first, level="info")
    assert post(daemon)[0] == 200
    daemon.wait_for_log(re.compile("settings loaded again"))
    assert sum("settings loaded again" in line for line in daemon.log) == 1


def test_a_load_that_hangs_does_not_keep_the_daemon(daemon: Daemon, config: Config) -> None:
    config.path.unlink()
    os.mkfifo(config.path)  # as a file on a server that does not answer: its opening blocks
    connection = http.client.HTTPConnection(daemon.address, timeout=TIMEOUT_S)
    connection.request("POST", "/-/reload")
    assert daemon.get("/-/ready")[0] == 200
    assert daemon.terminate() == 0
    connection.close()


def test_it_is_a_post_and_nobody_may_unless_it_is_enabled(config: Config) -> None:
    config.write(config.first)
    with running("serve", "--no-nvml", "--config.file", str(config.path)) as daemon:
        status, body = post(daemon)
        assert (status, body) == (403, "not enabled; see --web.enable-lifecycle\n")
        assert post(daemon, method="GET")[0] == 405


def test_a_replay_takes_a_new_log_level_and_plays_on() -> None:
    with running("demo", "--web.enable-lifecycle") as daemon:
        daemon.wait_for(lambda samples: "vllm_memory_exporter_build_info" in str(samples))
        assert post(daemon) == (200, "reloaded\n")
        assert daemon.get("/-/ready")[0] == 200
