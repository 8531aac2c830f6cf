"""The stand-in library itself: time, delays, processes of their own."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pynvml

from tests.fake_nvml import FakeGpu, FakeProcess, Scenario, environment
from tests.fake_nvml.loading import FakeNvml


def test_a_new_process_finds_the_library(fake_nvml_library: Path, tmp_path: Path) -> None:
    scenario = tmp_path / "scenario"
    Scenario(gpus=[FakeGpu(uuid="GPU-a"), FakeGpu(uuid="GPU-b")], driver="999.1").write(scenario)
    program = (
        "import pynvml as p; p.nvmlInit(); "
        "print(p.nvmlDeviceGetCount(), p.nvmlSystemGetDriverVersion())"
    )
    output = subprocess.check_output(
        [sys.executable, "-c", program],
        env=os.environ | environment(fake_nvml_library, scenario),
        text=True,
    )
    assert output == "2 999.1\n"


def test_a_section_holds_from_its_time_on(fake_nvml: FakeNvml) -> None:
    gpu = FakeGpu(uuid="GPU-a", power_mw=100, processes=[FakeProcess(41, 300), FakeProcess(7, 20)])
    past = ["gpu 0", "power_mw 200", "process compute 41 gone", "process compute 7 unknown"]
    future = ["gpu 0", "power_mw 300"]
    fake_nvml.play(Scenario(gpus=[gpu], later={0.0: past, 86_400.0: future}))
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert pynvml.nvmlDeviceGetPowerUsage(handle) == 200
    (row,) = pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)
    assert (row.pid, row.usedGpuMemory) == (7, None)


def test_a_delayed_call_takes_its_time(fake_nvml: FakeNvml) -> None:
    delays_s = {"nvmlDeviceGetPowerUsage": 0.05}
    fake_nvml.play(Scenario(gpus=[FakeGpu(uuid="GPU-a", power_mw=250_000, delay_s=delays_s)]))
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    started_s = time.monotonic()
    assert pynvml.nvmlDeviceGetPowerUsage(handle) == 250_000
    assert time.monotonic() - started_s >= 0.05


def test_a_wrong_scenario_ends_the_process(fake_nvml_library: Path, tmp_path: Path) -> None:
    scenario = tmp_path / "scenario"
    scenario.write_text("gpu 0\nprocess compute forty\n")
    ended = subprocess.run(
        [sys.executable, "-c", "import pynvml; pynvml.nvmlInit()"],
        env=os.environ | environment(fake_nvml_library, scenario),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode != 0
    assert "fake NVML: bad process: compute forty" in ended.stderr
