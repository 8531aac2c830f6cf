"""Debian's Prometheus scrapes the daemon every 500 ms and answers for it."""

import subprocess
from collections.abc import Iterator

import pytest

from exporter.recordings import bundled_path
from tests.daemon import Daemon, running
from tests.programs import require_program
from tests.prometheus import Prometheus, prometheus


@pytest.fixture(scope="module")
def scraped(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Daemon, Prometheus]]:
    flags = ("--replay", str(bundled_path()), "--replay.freeze-at", "36.2")
    require_program("prometheus")
    with (
        running("serve", *flags) as daemon,
        prometheus(daemon.address, tmp_path_factory.mktemp("prometheus")) as server,
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
