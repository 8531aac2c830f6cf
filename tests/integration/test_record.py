"""What `record` writes, `serve --replay` plays."""

import errno
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from exporter.commands.record import Recorder
from exporter.records.codec import RecordingHeader
from tests.daemon import TIMEOUT_S, run, running
from tests.fake_nvml import FakeGpu, Scenario, environment
from tests.readings import START_UNIX_NS, blocks, kv, torch

UUID = "GPU-0000000a-0000-0000-0000-000000000000"


def test_a_recording_of_this_machine_replays_to_the_same_figures(
    fake_nvml_library: Path, tmp_path: Path
) -> None:
    scenario, trace = tmp_path / "scenario", tmp_path / "trace.jsonl"
    Scenario(gpus=[FakeGpu(uuid=UUID, memory_used=7_000_000_000)]).write(scenario)
    now_s = time.time() - 1_800_000_000
    records = [
        kv(now_s, blocks=blocks(25), model_name="llama", interval_s=60.0),
        torch(now_s, uuid=UUID, allocated_bytes=700, reserved_bytes=1000, interval_s=60.0),
    ]
    trace.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records))
    recording = tmp_path / "incident.jsonl"
    flags = ("--trace.path", str(trace), "--nvml.interval", "100ms")
    result = run(
        "record", *flags, "--output", str(recording), "--for", "1s",
        environment=environment(fake_nvml_library, scenario),
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert re.search(r"wrote .*incident.jsonl: \d+ lines, \d+ bytes", result.stderr)
    kinds = [json.loads(line)["type"] for line in recording.read_text().splitlines()]
    assert kinds[0] == "recording"
    assert {"device", "kv", "torch"} <= set(kinds[1:])

    with running("serve", "--replay", str(recording), "--replay.freeze-at", "0.5") as daemon:
        samples = daemon.samples()
    gpu = f'device="cuda:0",uuid="{UUID}"'
    assert samples[f"gpu_memory_used_bytes{{{gpu}}}"] == 7_000_000_000
    assert samples[f"gpu_memory_effective_pressure_ratio{{{gpu}}}"] == 0.25
    rank = f'device="cuda:0",engine="0",model_name="llama",rank="0",replica="node-1",uuid="{UUID}"'
    assert samples[f"vllm_torch_fragmentation_bytes{{{rank}}}"] == 300
    assert samples['vllm_memory_exporter_replay{recording="incident.jsonl"}'] == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_recording_that_has_no_end_and_leaves_it_whole(
    tmp_path: Path, number: signal.Signals
) -> None:
    recording = tmp_path / "incident.jsonl"
    command = [sys.executable, "-m", "exporter", "record", "--no-nvml", "--output", str(recording)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        deadline_s = time.monotonic() + TIMEOUT_S
        while not (recording.exists() and recording.read_bytes().count(b"\n") > 1):
            assert time.monotonic() < deadline_s
            assert process.poll() is None
            time.sleep(0.05)  # between two looks
        process.send_signal(number)
        assert process.wait(TIMEOUT_S) == 0
    finally:
        process.kill()
        process.wait(TIMEOUT_S)
    lines = recording.read_text().splitlines(keepends=True)
    assert lines[-1].endswith("\n")
    assert json.loads(lines[0])["type"] == "recording"


def test_a_full_disk_stops_the_recording_and_is_told() -> None:
    header = RecordingHeader(
        v=1, name="full", started_unix_ns=START_UNIX_NS, product_version="0", interval_s=0.5
    )
    with Path("/dev/full").open("wb", buffering=0) as file:
        recorder = Recorder(file, header)
    assert recorder.stopped.is_set()
    assert recorder.failure is not None
    assert recorder.failure.errno == errno.ENOSPC
    assert recorder.lines == 0


def test_a_file_that_cannot_be_made_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    output = tmp_path / "missing" / "incident.jsonl"
    result = run("record", "--no-nvml", "--output", str(output), "--for", "1s")
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == (
        f"vllm-memory-exporter: --output {output}: No such file or directory"
    )
