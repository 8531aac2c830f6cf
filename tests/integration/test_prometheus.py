"""Debian's Prometheus scrapes the daemon every 500 ms and answers for it."""

import json
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from exporter.recordings import bundled_path
from tests.daemon import TIMEOUT_S, Daemon, running
from tests.programs import require_program

CONFIG = """
global: {{scrape_interval: 500ms, evaluation_interval: 500ms}}
scrape_configs:
  - job_name: vllm-memory
    static_configs: [{{targets: ["{target}"]}}]
"""


class Prometheus:
    """A running server that is asked through its query API."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1/query?"

    def values(self, query: str) -> dict[tuple[str, ...], float]:
        """Present values of a query, by their labels' values in the order of the labels' names."""
        with urllib.request.urlopen(self._url + urllib.parse.urlencode({"query": query})) as answer:
            results: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return {
            tuple(value for name, value in sorted(result["metric"].items())): float(
                result["value"][1]
            )
            for result in results
        }

    def wait_for(self, query: str) -> dict[tuple[str, ...], float]:
        """Ask until there is an answer."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while True:
            with suppress(OSError):
                if values := self.values(query):
                    return values
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"no series for {query} after {TIMEOUT_S} s")
            time.sleep(0.1)  # between two polls


@contextmanager
def prometheus(daemon: Daemon, directory: Path) -> Iterator[Prometheus]:
    program = require_program("prometheus")
    config = directory / "prometheus.yml"
    config.write_text(CONFIG.format(target=daemon.address))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    command = [
        program,
        f"--config.file={config}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    ]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            yield Prometheus(port)
        finally:
            process.terminate()
            process.wait(TIMEOUT_S)


@pytest.fixture(scope="module")
def scraped(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Daemon, Prometheus]]:
    flags = ("--replay", str(bundled_path()), "--replay.freeze-at", "36.2")
    require_program("prometheus")
    with (
        running("serve", *flags) as daemon,
        prometheus(daemon, tmp_path_factory.mktemp("prometheus")) as server,
    ):
        server.wait_for("up == 1")
        yield daemon, server


def test_every_series_that_the_daemon_has_is_in_prometheus(
    scraped: tuple[Daemon, Prometheus],
) -> None:
    daemon, server = scraped
    exposed = {series.partition("{")[0] for series in daemon.samples()}
    stored = {name for (name,) in server.wait_for('count by (__name__) ({job="vllm-memory"})')}
    assert exposed <= stored


def test_a_query_gives_the_recorded_figures(scraped: tuple[Daemon, Prometheus]) -> None:
    _daemon, server = scraped
    by_device = server.wait_for("max by (device) (gpu_memory_free_bytes)")
    assert by_device[("cuda:1",)] == 132_285_726_720
    assert len(by_device) == 4
    (usage,) = server.wait_for("max(vllm_kv_cache_usage_ratio)").values()
    assert usage == 3600 / 5999


def test_a_histogram_of_samples_can_be_asked_for_a_quantile(
    scraped: tuple[Daemon, Prometheus],
) -> None:
    _daemon, server = scraped
    query = "histogram_quantile(1, gpu_memory_effective_pressure_sample_ratio_bucket)"
    values = server.wait_for(query)
    assert set(values.values()) == {0.7}  # the bucket that the highest usage, 0.67, falls into


def test_promtool_finds_nothing_to_complain_about(scraped: tuple[Daemon, Prometheus]) -> None:
    daemon, _server = scraped
    text = daemon.get("/metrics")[1]
    command = [require_program("promtool"), "check", "metrics"]
    result = subprocess.run(command, input=text, capture_output=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")
