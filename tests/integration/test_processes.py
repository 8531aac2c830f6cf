"""`processes`: once and again and again, from a daemon, a recording and this machine."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from exporter.recordings import bundled_path
from tests.daemon import TIMEOUT_S, run, running
from tests.fake_nvml import FakeGpu, FakeProcess, Scenario, environment

TP4 = str(bundled_path("tp4_cotenant"))
UUID = "GPU-0000000a-0000-0000-0000-000000000000"


def owners(output: str) -> dict[tuple[str, int], str]:
    """Owner by device and pid."""
    document = json.loads(output)
    return {
        (gpu["device"], process["pid"]): process["owner"]
        for gpu in document["gpus"]
        for process in gpu["processes"]
    }


def test_a_recording_is_shown_at_the_moment_asked_for() -> None:
    result = run("processes", "--replay", TP4, "--replay.freeze-at", "36", "--json")
    assert (result.returncode, result.stderr) == (0, "")
    workers = {(f"cuda:{rank}", 1615 + rank): f"vllm-0/0 rank {rank}" for rank in range(4)}
    tenant = {(device, 2654): "other_processes" for device in ("cuda:0", "cuda:1")}
    assert owners(result.stdout) == workers | tenant


def test_a_recording_is_shown_as_a_table_as_it_ends() -> None:
    result = run("processes", "--replay", TP4)
    assert (result.returncode, result.stderr) == (0, "")
    lines = [re.sub(r"\s+", " ", line).strip() for line in result.stdout.splitlines()]
    assert lines[0] == "2026-11-29T13:48:05Z of the recording tp4_cotenant"
    assert lines[1] == "GPU pid name memory GB share owner started"
    assert lines[2].startswith("cuda:0 NVIDIA H200 10.73 7.1%")
    assert lines[3] == "1615 - 10.72 7.1% vllm-0/0 rank 0 -"
    assert len(lines) == 10


def test_a_daemon_is_asked_over_http() -> None:
    with running("serve", "--replay", TP4, "--replay.freeze-at", "36") as daemon:
        result = run("processes", "--url", daemon.address, "--json")
    assert result.returncode == 0
    assert owners(result.stdout)["cuda:1", 2654] == "other_processes"


def test_this_machine_is_shown_with_what_it_tells(fake_nvml_library: Path, tmp_path: Path) -> None:
    scenario = tmp_path / "scenario"
    processes = [FakeProcess(pid=4_000_001, used_bytes=8_000_000_000)]
    gpu = FakeGpu(uuid=UUID, memory_used=8_100_000_000, processes=processes)
    Scenario(gpus=[gpu]).write(scenario)
    result = run(
        "processes", "--nvml.interval", "100ms", "--json", "--command-lines",
        environment=environment(fake_nvml_library, scenario),
    )  # fmt: skip
    assert result.returncode == 0
    ((shown,),) = (gpu["processes"] for gpu in json.loads(result.stdout)["gpus"])
    assert (shown["pid"], shown["used_bytes"]) == (4_000_001, 8_000_000_000)
    assert (shown["owner"], shown["name"]) == ("other_processes", None)
    assert (shown["start_unix_s"], shown["command"]) == (None, None)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_watching_goes_on_until_a_signal_and_gives_one_line_a_moment(
    number: signal.Signals,
) -> None:
    command = [sys.executable, "-m", "exporter", "processes", "--replay", TP4]
    process = subprocess.Popen(
        [*command, "--watch", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        moments = [json.loads(process.stdout.readline())["ts_unix_s"] for _ in range(3)]
        process.send_signal(number)
        _, said = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
        process.wait(TIMEOUT_S)
    assert process.returncode == 0
    assert said == ""
    assert moments[0] < moments[1] < moments[2]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--no-nvml",), 1, "saw no GPU; run it where the GPUs are"),
        (("--url", "127.0.0.1:1"), 1, "Connection refused"),
        (("--url", "127.0.0.1:1", "--replay", TP4), 2, "--url and --replay: give one of them"),
        (("--replay", "/nowhere.jsonl"), 1, "/nowhere.jsonl: No such file or directory"),
    ],
    ids=["no GPU", "unreachable", "both", "no file"],
)
def test_when_there_is_nothing_to_see_it_is_one_line(
    arguments: tuple[str, ...], code: int, said: str
) -> None:
    result = run("processes", *arguments, "--log.level", "error")
    assert (result.returncode, result.stdout) == (code, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("vllm-memory-exporter: ")
    assert said in line
