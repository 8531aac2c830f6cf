"""Processes with every hostile name at once, and thousands that come and go: what is served."""

import gc
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as from_openmetrics

from exporter.clock import ManualClock
from exporter.pipeline import Pipeline
from exporter.sources.nvml import NvmlSource
from exporter.sources.process_facts import LocalProcesses
from exporter.views.metrics.exposition import Exposition
from exporter.views.metrics.text_format import text_format
from tests.daemon import Daemon, run, running, samples_of
from tests.fake_nvml import FakeGpu, FakeProcess, Scenario, environment
from tests.fake_nvml.loading import FakeNvml
from tests.programs import require_program
from tests.readings import START_UNIX_NS

UUID = "GPU-0000000a-0000-0000-0000-000000000000"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
USED_BYTES = 1_000_000_000
NAMED = """
import mmap, sys
library = open(sys.argv[1], "rb")
mapped = mmap.mmap(library.fileno(), 0, prot=mmap.PROT_READ)
with open("/proc/self/comm", "wb") as name:
    name.write(bytes.fromhex(sys.argv[2]))
print(flush=True)
input()
"""
SHOWN = {
    b"bad\xff\xfe": "bad\ufffd\ufffd",
    b'we"ird\nname\\': 'we"irdname\\',
    b"VLLM::EngineCor": "VLLM::EngineCor",
    b"\x1b[31mred\x00": "[31mred",
    "π{}=,é".encode(): "π{}=,é",
}
"""What a process calls itself, and what is served of it."""


@contextmanager
def named(directory: Path, name: bytes) -> Iterator[int]:
    """A process that calls itself so, with bytes that are no text among its arguments."""
    library = directory / "libcuda.so.1"  # without it a container's process is not told
    library.write_bytes(b"nothing to run")
    argv: list[str | bytes] = [sys.executable, "-c", NAMED, str(library), name.hex()]
    argv += [b'--x=\xff\xfe"\n\\', "--end"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


@pytest.fixture
def pids(tmp_path: Path) -> Iterator[dict[int, str]]:
    """Name that is to be shown by pid."""
    with ExitStack() as stack:
        yield {stack.enter_context(named(tmp_path, name)): shown for name, shown in SHOWN.items()}


@pytest.fixture
def variables(fake_nvml_library: Path, tmp_path: Path, pids: dict[int, str]) -> dict[str, str]:
    processes = [FakeProcess(pid, USED_BYTES) for pid in (*pids, 4_000_000)]
    gpu = FakeGpu(
        uuid=UUID,
        name='NVIDIA "H200"\\',
        memory_used=USED_BYTES * len(processes),
        processes=processes,
    )
    scenario = tmp_path / "scenario"
    Scenario(gpus=[gpu]).write(scenario)
    return environment(fake_nvml_library, scenario)


@pytest.fixture
def daemon(variables: dict[str, str], tmp_path: Path) -> Iterator[Daemon]:
    """It follows a trace whose names are no better than those of the processes."""
    trace = tmp_path / "trace"
    trace.mkdir()
    bare = b'{"page_table": {"num_pages": 42, "contiguous_pages": 17}}\n'
    for stem in (b"bad\xff\xfe", b'we"ird\nname', b"cut\\"):
        (Path(str(trace)) / stem.decode(errors="surrogateescape")).with_suffix(
            ".jsonl"
        ).write_bytes(bare)
    with running("serve", "--trace.path", str(trace), environment=variables) as started:
        started.wait_for(lambda samples: "vllm_page_table_pages" in str(samples))
        started.wait_for(lambda samples: "gpu_process_memory_used_bytes" in str(samples))
        yield started


def test_b2_every_hostile_name_at_once_leaves_a_scrape_that_strict_parsers_accept(
    daemon: Daemon, pids: dict[int, str]
) -> None:
    _, text = daemon.get("/metrics")
    _, openmetrics = daemon.get("/metrics", Accept=OPENMETRICS)
    samples_of(text.decode())
    families = list(from_openmetrics(openmetrics.decode()))  # type: ignore[no-untyped-call]
    names = {
        int(sample.labels["pid"]): sample.labels["process_name"]
        for family in families
        if family.name == "gpu_process_memory_used_bytes"
        for sample in family.samples
    }
    assert names == {**pids, 4_000_000: ""}
    replicas = {
        sample.labels["replica"]
        for family in families
        if family.name == "vllm_page_table_pages"
        for sample in family.samples
    }
    assert replicas == {"bad\ufffd\ufffd", 'we"ird\nname', "cut\\"}
    check = [require_program("promtool"), "check", "metrics"]
    lint = subprocess.run(check, input=text, capture_output=True, check=False)
    assert (lint.returncode, lint.stdout, lint.stderr) == (0, b"", b"")


def test_b1_every_page_and_every_table_shows_hostile_processes(
    daemon: Daemon, variables: dict[str, str], pids: dict[int, str]
) -> None:
    for path in ("/", "/api/view", "/api/conflicts", "/live"):
        status, body = daemon.get(path)
        assert status == 200, path
        body.decode()
    (device,) = json.loads(daemon.get("/api/view")[1])["devices"]
    names = {row["pid"]: row.get("name") for row in device["sample"]["processes"]}
    assert {pid: names[pid] for pid in pids} == pids
    table = run("processes", "--command-lines", "--json", environment=variables)
    assert table.returncode == 0, table.stderr
    commands = {
        process["pid"]: process["command"]
        for gpu in json.loads(table.stdout)["gpus"]
        for process in gpu["processes"]
    }
    for pid in pids:
        assert commands[pid].endswith("--end")
        assert "\n" not in commands[pid]


def test_b3_ten_thousand_pids_leave_neither_series_nor_memory_behind(fake_nvml: FakeNvml) -> None:
    clock = ManualClock(START_UNIX_NS)
    source = NvmlSource(0.5, clock)
    pipeline = Pipeline(clock, 0.5, processes=LocalProcesses())
    exposition = Exposition()
    wanted = text_format("")
    sizes, series = [], []
    for generation in range(100):
        processes = [
            FakeProcess(3_000_000 + 100 * generation + number, 1_000_000) for number in range(100)
        ]
        fake_nvml.play(
            Scenario(gpus=[FakeGpu(uuid=UUID, memory_used=200_000_000, processes=processes)])
        )
        clock.advance(0.5)
        pipeline.offer(source.read())
        text = exposition.render(pipeline.tick(), wanted).decode()
        series.append(text.count("\ngpu_process_memory_used_bytes{"))
        assert f'pid="{processes[-1].pid}"' in text
        if generation == 60:
            tracemalloc.start()
        if generation > 60:
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    source.close()
    assert set(series) == {100}
    # A single step is some cache of the test run; what each process left would be in every one.
    assert median(later - former for former, later in pairwise(sizes)) < 100 * 8
