"""A co-tenant beside an engine: from the driver's process list to /api/conflicts."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from exporter.clock import SystemClock
from exporter.records.trace import Blocks, KvRecord, TorchRecord
from tests.daemon import Daemon, running
from tests.fake_nvml import FakeGpu, FakeProcess, Scenario, environment

UUID = "GPU-0000000a-0000-0000-0000-000000000000"
GPU = f'device="cuda:0",uuid="{UUID}"'
ENGINE_PID = 3_999_998  # of no process here
ENGINE_BYTES, CO_TENANT_BYTES = 60_000_000_000, 7_000_000_000
CO_TENANT = (
    "import mmap, sys\n"
    "library = open(sys.argv[1], 'rb')\n"
    "mapped = mmap.mmap(library.fileno(), 0, prot=mmap.PROT_READ)\n"
    "print(flush=True)\n"
    "input()"
)


@contextmanager
def co_tenant(directory: Path) -> Iterator[int]:
    """A process with CUDA's library mapped, or so it looks, and a secret in its arguments."""
    library = directory / "libcuda.so.1"
    library.write_bytes(b"nothing to run")
    argv = [sys.executable, "-c", CO_TENANT, str(library), "--api-key", "s3cret"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """What the plugin says of an engine that holds most of the GPU, fresh for a minute."""
    common: dict[str, Any] = {
        "v": 1,
        "ts_unix_ns": SystemClock().unix_ns(),
        "pid": ENGINE_PID,
        "replica": "node-1",
        "engine": "0",
        "interval_s": 60.0,
    }
    records = (
        KvRecord(**common, blocks=Blocks(total=1001, num_free=400, cached=100)),
        TorchRecord(
            **common,
            rank=0,
            uuid=UUID,
            reserved_bytes=59_000_000_000,
            allocated_bytes=58_000_000_000,
            kv_pool_bytes=1001 * 40_000_000,
        ),
    )
    path = tmp_path / "node-1.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records))
    return path


def machine(co_tenant_pid: int | None) -> Scenario:
    processes = [FakeProcess(ENGINE_PID, ENGINE_BYTES)]
    if co_tenant_pid is not None:
        processes.append(FakeProcess(co_tenant_pid, CO_TENANT_BYTES))
    used_bytes = sum(process.used_bytes or 0 for process in processes)
    return Scenario(gpus=[FakeGpu(uuid=UUID, memory_used=used_bytes, processes=processes)])


def count(daemon: Daemon, conflicts: int) -> dict[str, float]:
    """The samples once that many co-tenants have been counted."""
    series = f'gpu_memory_conflicts_total{{device="cuda:0",kind="co_tenant",uuid="{UUID}"}}'
    return daemon.wait_for(lambda samples: samples.get(series) == conflicts)


def test_a_co_tenant_is_told_with_its_pid_and_without_its_secret(
    fake_nvml_library: Path, tmp_path: Path, trace: Path
) -> None:
    scenario = tmp_path / "scenario"
    machine(None).write(scenario)
    flags = ("--trace.path", str(trace), "--nvml.interval", "100ms")
    variables = environment(fake_nvml_library, scenario)
    with running("serve", *flags, environment=variables) as daemon, co_tenant(tmp_path) as pid:
        count(daemon, 0)
        assert json.loads(daemon.get("/api/conflicts")[1]) == []
        machine(pid).write(scenario)
        samples = count(daemon, 1)
        daemon.wait_for_log(re.compile(f"conflict co_tenant on cuda:0 .* process {pid} "))
        (conflict,) = json.loads(daemon.get("/api/conflicts")[1])
        assert "s3cret" not in daemon.get("/api/conflicts")[1].decode()
        assert "api-key" not in daemon.get("/metrics")[1].decode()
        assert not [line for line in daemon.log if "api-key" in line]
    assert (conflict["pid"], conflict["growth_bytes"]) == (pid, {UUID: CO_TENANT_BYTES})
    engine, other = sorted(conflict["processes"], key=lambda row: row["pid"] == pid)
    assert (engine["pid"], engine["command"]) == (ENGINE_PID, None)
    assert other["command"].endswith("--api-key ***")
    assert other["start_unix_s"] > 1_700_000_000
    owners = {
        series: value
        for series, value in samples.items()
        if series.startswith("gpu_memory_ledger_bytes")
    }
    assert sum(owners.values()) == samples[f"gpu_memory_total_bytes{{{GPU}}}"]
    assert owners[
        f'gpu_memory_ledger_bytes{{device="cuda:0",owner="other_processes",uuid="{UUID}"}}'
    ] == (CO_TENANT_BYTES)
    assert owners[
        f'gpu_memory_ledger_bytes{{device="cuda:0",owner="kv_active",uuid="{UUID}"}}'
    ] == (600 * 40_000_000)


def test_an_expected_process_is_not_told(
    fake_nvml_library: Path, tmp_path: Path, trace: Path
) -> None:
    scenario, config = tmp_path / "scenario", tmp_path / "exporter.yml"
    machine(None).write(scenario)
    flags = ("--trace.path", str(trace), "--nvml.interval", "100ms", "--config.file", str(config))
    variables = environment(fake_nvml_library, scenario)
    with co_tenant(tmp_path) as pid:
        name = Path(f"/proc/{pid}/comm").read_text().strip()
        config.write_text(f"conflicts: {{expected_processes: [{name}]}}\n")
        with running("serve", *flags, environment=variables) as daemon:
            count(daemon, 0)
            machine(pid).write(scenario)
            process = f'gpu_process_memory_used_bytes{{device="cuda:0",pid="{pid}",'
            daemon.wait_for(lambda samples: any(series.startswith(process) for series in samples))
            published_ns = json.loads(daemon.get("/api/view")[1])["ts_unix_ns"]
            while json.loads(daemon.get("/api/view")[1])["ts_unix_ns"] < published_ns + 5e8:
                assert json.loads(daemon.get("/api/conflicts")[1]) == []
