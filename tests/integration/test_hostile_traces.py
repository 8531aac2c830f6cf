"""Whatever stands where a trace should be: the program follows the rest and never waits."""

import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as from_openmetrics

from tests.daemon import TIMEOUT_S, Daemon, running, samples_of
from tests.fake_nvml import FakeGpu, Scenario, environment

UUID = "GPU-0000000a-0000-0000-0000-000000000000"
GPU = f'device="cuda:0",uuid="{UUID}"'
TRACE_UP = 'vllm_memory_exporter_source_up{source="trace"}'
NOT_REGULAR = 'vllm_memory_exporter_source_errors_total{reason="not_a_regular_file",source="trace"}'
DROPPED = "vllm_memory_exporter_dropped_bytes_total"
FLOOD = """
import sys, time
line = sys.argv[2].encode() + b"\\n"
with open(sys.argv[1], "ab", buffering=0) as file:
    for _ in range(600):  # a minute, should nobody end it
        file.write(line * 10_000)
        time.sleep(0.1)  # 100,000 lines a second, as far as the machine can
"""


def kv(replica: str, waiting: int, pad: int = 0) -> str:
    return (
        f'{{"v":1,"type":"kv","ts_unix_ns":{time.time_ns()},"pid":10,"replica":"{replica}",'
        f'"engine":"0","interval_s":30,"model_name":"m","waiting":{waiting},"pad":"{"x" * pad}"}}'
    )


def waiting_of(replica: str) -> str:
    labels = f'{{engine="0",model_name="m",replica="{replica}",state="waiting"}}'
    return f"vllm_engine_requests{labels}"


def wait_for_waiting(daemon: Daemon, replica: str, waiting: int) -> dict[str, float]:
    return daemon.wait_for(lambda samples: samples.get(waiting_of(replica)) == waiting)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "trace"
    path.mkdir()
    return path


@contextmanager
def following(directory: Path, *flags: str) -> Iterator[Daemon]:
    with running("serve", "--no-nvml", "--trace.path", str(directory), *flags) as daemon:
        yield daemon


@pytest.fixture
def driver(fake_nvml_library: Path, tmp_path: Path) -> dict[str, str]:
    scenario = tmp_path / "scenario"
    Scenario(gpus=[FakeGpu(uuid=UUID, memory_used=1000)]).write(scenario)
    return environment(fake_nvml_library, scenario)


def test_d9_fifos_directories_loops_and_sockets_beside_a_trace_do_not_hold_it_up(
    directory: Path,
) -> None:
    os.mkfifo(directory / "fifo.jsonl")
    (directory / "directory.jsonl").mkdir()
    (directory / "loop.jsonl").symlink_to("loop.jsonl")
    (directory / "dangling.jsonl").symlink_to("nowhere")
    (directory / "device.log").symlink_to("/dev/zero")
    (directory / "good.jsonl").write_text(kv("good", 7) + "\n")
    with following(directory) as daemon:
        samples = wait_for_waiting(daemon, "good", 7)
        assert samples[TRACE_UP] == 1
        assert samples[NOT_REGULAR] >= 3
        told = [line for line in daemon.log if "not readable" in line]
        assert len(told) == len({re.search(r"\w+\.(jsonl|log)", line)[0] for line in told})  # type: ignore[index]


@pytest.mark.parametrize("kind", ["missing directory", "empty directory", "fifo"])
def test_d9_what_is_no_trace_at_start_is_told_once_and_taken_up_when_it_comes(
    tmp_path: Path, kind: str
) -> None:
    directory = tmp_path / "late"
    if kind != "missing directory":
        directory.mkdir()
    if kind == "fifo":
        os.mkfifo(directory / "a.jsonl")
    up_s = 'vllm_memory_exporter_source_last_success_timestamp_seconds{source="trace"}'
    reads = 'vllm_memory_exporter_sample_duration_seconds_count{source="trace"}'
    with following(directory) as daemon:
        samples = daemon.wait_for(lambda samples: samples.get(reads, 0) >= 3)
        assert (samples[TRACE_UP], up_s in samples) == (0, False)
        directory.mkdir(exist_ok=True)
        (directory / "a.jsonl").unlink(missing_ok=True)
        (directory / "a.jsonl").write_text(kv("a", 3) + "\n")
        wait_for_waiting(daemon, "a", 3)
        daemon.wait_for_log(re.compile("source trace: back"))
        assert sum("source trace: down" in line for line in daemon.log) == 1


def test_d9_a_config_map_that_is_swapped_is_followed(directory: Path) -> None:
    for version in (1, 2):
        (directory / f"..v{version}").mkdir()
        (directory / f"..v{version}" / "a.jsonl").write_text(kv("a", version) + "\n")
    (directory / "..data").symlink_to("..v1")
    (directory / "a.jsonl").symlink_to("..data/a.jsonl")
    with following(directory) as daemon:
        wait_for_waiting(daemon, "a", 1)
        (directory / "..next").symlink_to("..v2")
        (directory / "..next").rename(directory / "..data")
        wait_for_waiting(daemon, "a", 2)


def test_d10_a_gigabyte_of_backlog_is_skipped_and_counted_in_little_memory(
    directory: Path,
) -> None:
    path = directory / "a.jsonl"
    path.write_text(kv("a", 1) + "\n")
    with following(directory) as daemon:
        samples = wait_for_waiting(daemon, "a", 1)
        with path.open("r+b") as file:
            begun = file.seek(0, os.SEEK_END)
            file.write(b"{" * 1000)
            file.seek(begun + 2**30)  # a hole: NUL bytes without a newline
            file.write(b"\n" + kv("a", 2).encode() + b"\n")
        after = wait_for_waiting(daemon, "a", 2)
    assert after[DROPPED] == 2**30 + 1
    grown = after["process_resident_memory_bytes"] - samples["process_resident_memory_bytes"]
    assert grown < 32 * 2**20


def test_d10_a_flood_of_lines_misses_no_sample_and_shows_its_last_values(
    directory: Path, driver: dict[str, str]
) -> None:
    quiet, flooded = directory / "quiet.jsonl", directory / "flooded.jsonl"
    quiet.write_text(kv("quiet", 0) + "\n")
    flags = ("--trace.path", str(directory), "--nvml.interval", "1s")
    reads = 'vllm_memory_exporter_sample_duration_seconds_count{source="nvml"}'
    with running("serve", *flags, environment=driver) as daemon:
        before = daemon.wait_for(
            lambda samples: samples.get(waiting_of("quiet")) == 0 and reads in samples
        )
        with subprocess.Popen([sys.executable, "-c", FLOOD, flooded, kv("flooded", 5)]) as writer:
            try:
                for waiting in range(1, 6):
                    with quiet.open("a") as file:
                        file.write(kv("quiet", waiting) + "\n")
                    wait_for_waiting(daemon, "quiet", waiting)
                samples = daemon.wait_for(
                    lambda samples: (
                        samples[reads] >= before[reads] + 5
                        and samples.get(waiting_of("flooded")) == 5
                    )
                )
            finally:
                writer.kill()
        missed = 'vllm_memory_exporter_missed_samples_total{source="nvml"}'
        assert samples[missed] == before[missed]
        assert samples[f"gpu_up{{{GPU}}}"] == 1
        grown = samples["process_resident_memory_bytes"] - before["process_resident_memory_bytes"]
        assert grown < 100 * 2**20


def test_twenty_scrapers_at_once_each_get_one_whole_view() -> None:
    """A View's figures belong together: the ledger sums to the GPU's total in every body."""
    is_over = threading.Event()

    def scrape(number: int) -> int:
        bodies = 0
        while not is_over.is_set():
            wants = {"Accept": "application/openmetrics-text; version=1.0.0"} if number % 2 else {}
            status, body = daemon.get("/metrics", **wants)
            assert status == 200
            if number % 2:
                families = from_openmetrics(body.decode())  # type: ignore[no-untyped-call]
                samples = [s for family in families for s in family.samples]
                owners = [s.value for s in samples if s.name == "gpu_memory_ledger_bytes"]
                totals = [s.value for s in samples if s.name == "gpu_memory_total_bytes"]
            else:
                by_series = samples_of(body.decode())
                owners = [v for s, v in by_series.items() if s.startswith("gpu_memory_ledger_b")]
                totals = [v for s, v in by_series.items() if s.startswith("gpu_memory_total_b")]
            assert sum(owners) == sum(totals) > 0
            bodies += 1
            if bodies == 3:
                done.release()
        return bodies

    done = threading.Semaphore(0)
    with running("demo") as daemon, ThreadPoolExecutor(20) as scrapers:
        daemon.wait_for(lambda samples: "gpu_memory_ledger_bytes" in str(samples))
        results = [scrapers.submit(scrape, number) for number in range(20)]
        try:
            for _ in range(20):
                assert done.acquire(timeout=50), [r.exception(0) for r in results if r.done()]
        finally:
            is_over.set()
        assert all(result.result() >= 3 for result in results)
        assert json.loads(daemon.get("/api/view")[1])["replay"]


def test_d5_its_own_log_is_not_followed(directory: Path) -> None:
    """Each line that it could not read would be told in a line that it could not read."""
    (directory / "good.jsonl").write_text(kv("good", 7) + "\n")
    own = directory / "exporter.log"
    flags = ("--no-nvml", "--trace.path", str(directory), "--web.listen-address", "127.0.0.1:0")
    with own.open("wb") as log:
        process = subprocess.Popen([sys.executable, "-m", "exporter", "serve", *flags], stderr=log)
    try:
        deadline_s = time.monotonic() + TIMEOUT_S
        while "this program itself writes to it" not in own.read_text():
            assert time.monotonic() < deadline_s, own.read_text()
            time.sleep(0.05)  # between two looks
        address = re.search(r"serves at http://(\S+)\"", own.read_text())
        assert address is not None
        connection = http.client.HTTPConnection(address[1], timeout=TIMEOUT_S)
        samples: dict[str, float] = {}
        while samples.get(waiting_of("good")) != 7:
            assert time.monotonic() < deadline_s, samples
            connection.request("GET", "/metrics")
            response = connection.getresponse()
            body = response.read().decode()
            samples = samples_of(body) if response.status == 200 else {}
        assert samples['vllm_memory_exporter_trace_lines_total{outcome="ignored"}'] == 0
        connection.close()
    finally:
        process.kill()
        process.wait(TIMEOUT_S)
