"""GPUs that share the CPU's memory, and those that only look like it."""

from pathlib import Path

import pytest

from exporter.records.device import ProcessMemory, UnifiedMemory
from exporter.sources.unified_memory import (
    can_share_memory,
    read_unified_memory,
    unified_memory,
)
from tests.fake_nvml import FakeGpu, FakeProcess, Scenario
from tests.fake_nvml.loading import FakeNvml
from tests.nvml_bench import NvmlBench

NOT_SUPPORTED, GPU_IS_LOST, UNKNOWN = 3, 15, 999
NO_MEMORY_INFO = {
    "nvmlDeviceGetMemoryInfo": NOT_SUPPORTED,
    "nvmlDeviceGetMemoryInfo_v2": NOT_SUPPORTED,
}
MEMINFO = """\
MemTotal:       125532160 kB
MemFree:         90000000 kB
MemAvailable:   101234567 kB
Buffers:           123456 kB
"""


def test_a1_a_part_without_memory_of_its_own_is_told_as_such(fake_nvml: FakeNvml) -> None:
    gpu = FakeGpu(
        uuid="GPU-a", name="NVIDIA GB10", processes=[FakeProcess(41, 700)], rc=NO_MEMORY_INFO
    )
    fake_nvml.play(Scenario(gpus=[gpu]))
    bench = NvmlBench()
    (device,) = bench.read().devices
    assert device.facts.memory_kind == "unified"
    assert device.sample is not None
    assert device.sample.memory is None  # the machine's memory is not the GPU's
    assert device.sample.processes == (ProcessMemory(pid=41, used_bytes=700),)
    own = read_unified_memory()
    assert own is not None
    assert device.sample.unified_memory is not None
    assert device.sample.unified_memory.total_bytes == own.total_bytes
    assert not bench.opener.errors


@pytest.mark.parametrize(
    "gpu",
    [
        pytest.param(FakeGpu(uuid="GPU-a", rc=NO_MEMORY_INFO), id="a board that says nothing"),
        pytest.param(FakeGpu(uuid="GPU-a", name="NVIDIA GH200 480GB"), id="GH200 with its HBM"),
        pytest.param(
            FakeGpu(
                uuid="GPU-a",
                name="NVIDIA GB10",
                rc={"nvmlDeviceGetMemoryInfo": UNKNOWN, "nvmlDeviceGetMemoryInfo_v2": UNKNOWN},
            ),
            id="a GB10 whose memory call fails",
        ),
    ],
)
def test_a1_nothing_else_is(fake_nvml: FakeNvml, gpu: FakeGpu) -> None:
    fake_nvml.play(Scenario(gpus=[gpu]))
    (device,) = NvmlBench().read().devices
    assert device.facts.memory_kind == "dedicated"
    assert device.sample is not None
    assert device.sample.unified_memory is None


def test_a1_a_lost_gpu_does_not_look_unified(fake_nvml: FakeNvml) -> None:
    bench = NvmlBench()
    fake_nvml.play(Scenario(gpus=[FakeGpu(uuid="GPU-a", name="NVIDIA GB10")]))
    bench.read()
    lost = FakeGpu(uuid="GPU-a", name="NVIDIA GB10", rc={"*": GPU_IS_LOST})
    fake_nvml.play(Scenario(gpus=[lost]))
    (device,) = bench.read().devices
    assert device.sample is None
    assert device.facts.memory_kind == "dedicated"


@pytest.mark.parametrize(
    ("name", "can"),
    [
        ("NVIDIA GB10", True),
        ("NVIDIA GH200 480GB", True),
        ("Orin (nvgpu)", True),
        ("NVIDIA Thor", True),
        ("NVIDIA GB100", False),
        ("NVIDIA H200", False),
        ("NVIDIA GeForce GTX 1080", False),
        ("", False),
    ],
)
def test_the_parts_are_known_by_name(name: str, can: bool) -> None:
    assert can_share_memory(name) is can


def test_meminfo_is_in_kibibytes() -> None:
    assert unified_memory(MEMINFO) == UnifiedMemory(
        total_bytes=128_544_931_840, available_bytes=103_664_196_608
    )


@pytest.mark.parametrize("text", ["", "MemTotal: 5 kB\n", MEMINFO.replace(" kB", "")])
def test_a_meminfo_without_both_figures_says_nothing(text: str) -> None:
    assert unified_memory(text) is None


def test_without_meminfo_nothing_is_known(tmp_path: Path) -> None:
    assert read_unified_memory(tmp_path / "meminfo") is None
