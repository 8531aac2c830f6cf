"""All GPUs through the real pynvml and the stand-in library: samples, losses, recoveries."""

import os
from collections.abc import Sequence
from pathlib import Path

import pynvml
import pytest

from exporter.clock import ManualClock
from exporter.errors import SourceUnavailable
from exporter.records.device import (
    Device,
    DeviceFacts,
    DeviceMemory,
    DeviceReading,
    DeviceSample,
    ProcessMemory,
)
from exporter.sources.nvml import NvmlSource
from exporter.sources.process_names import ProcessNames
from tests.fake_nvml import FakeGpu, FakeProcess, Number, Scenario
from tests.fake_nvml.loading import FakeNvml

TS_UNIX_NS = 1_795_960_065_000_000_000
NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED, GPU_IS_LOST = 3, 4, 9, 15
LIBRARY_NOT_FOUND, VERSION_MISMATCH, UNINITIALIZED, UNKNOWN = 12, 18, 1, 999
NOT_AVAILABLE = (1 << 64) - 1
NAMELESS = ProcessNames(Path("/nonexistent"))


class Bench:
    """A source and its clock."""

    def __init__(self, names: ProcessNames = NAMELESS) -> None:
        self.clock = ManualClock(TS_UNIX_NS)
        self.source = NvmlSource(0.5, self.clock, names)

    def samples(self) -> dict[str, DeviceSample | None]:
        return {d.facts.uuid: d.sample for d in self.source.read().devices}

    def sample(self) -> DeviceSample:
        (sample,) = self.samples().values()
        assert sample is not None
        return sample

    def lost(self) -> list[str]:
        return [uuid for uuid, sample in self.samples().items() if sample is None]


def gpus(*uuids: str, lost: Sequence[str] = ()) -> list[FakeGpu]:
    return [FakeGpu(uuid=u, rc={"*": GPU_IS_LOST} if u in lost else {}) for u in uuids]


def test_a_reading_holds_every_figure_in_base_units(fake_nvml: FakeNvml) -> None:
    gpu = FakeGpu(
        uuid="GPU-a",
        name="NVIDIA H200",
        bus="00000000:1B:00.0",
        memory_total=150_754_820_096,
        memory_reserved=644_939_776,
        memory_used=9_000_000_000,
        utilization_gpu=37,
        utilization_memory=12,
        power_mw=412_345,
        temperature_gpu=36,
        temperature_memory=41,
        clock_sm_mhz=1980,
        clock_memory_mhz=3201,
        event_reasons=0x4,
        event_reasons_supported=0x5,
        processes=[
            FakeProcess(41, 7_000_000_000),
            FakeProcess(7, None),
            FakeProcess(41, 5_000_000_000, "graphics"),
        ],
    )
    fake_nvml.play(Scenario(gpus=[gpu], driver="580.159.04"))
    assert Bench().source.read() == DeviceReading(
        ts_unix_ns=TS_UNIX_NS,
        interval_s=0.5,
        devices=(
            Device(
                facts=DeviceFacts(
                    index=0,
                    uuid="GPU-a",
                    name="NVIDIA H200",
                    pci_bus_id="00000000:1B:00.0",
                    driver_version="580.159.04",
                ),
                sample=DeviceSample(
                    memory=DeviceMemory(
                        total_bytes=150_754_820_096,
                        used_bytes=9_000_000_000,
                        free_bytes=141_109_880_320,
                        reserved_bytes=644_939_776,
                    ),
                    processes=(
                        ProcessMemory(pid=7),
                        ProcessMemory(pid=41, used_bytes=7_000_000_000),
                    ),
                    gpu_utilization_ratio=0.37,
                    memory_controller_utilization_ratio=0.12,
                    power_watts=412.345,
                    temperatures_celsius={"gpu": 36.0, "memory": 41.0},
                    clocks_hertz={"sm": 1.98e9, "memory": 3.201e9},
                    event_reasons={"gpu_idle": False, "sw_power_cap": True},
                ),
            ),
        ),
        capabilities={
            "memory_v2": True,
            "processes": True,
            "graphics_processes": True,
            "utilization": True,
            "power": True,
            "temperature_gpu": True,
            "temperature_memory": True,
            "clock_sm": True,
            "clock_memory": True,
            "event_reasons": True,
        },
    )


def test_capabilities_are_told_when_they_change(fake_nvml: FakeNvml) -> None:
    bench = Bench()
    fake_nvml.play(Scenario(gpus=gpus("GPU-a", "GPU-b")))
    first = bench.source.read().capabilities
    assert first is not None
    assert first["power"] is True
    assert bench.source.read().capabilities is None
    unsupported = FakeGpu(uuid="GPU-b", rc={"nvmlDeviceGetPowerUsage": NOT_SUPPORTED})
    fake_nvml.play(Scenario(gpus=[FakeGpu(uuid="GPU-a"), unsupported]))
    assert bench.source.read().capabilities == first | {"power": False}
    assert bench.source.read().capabilities is None


@pytest.mark.parametrize(
    ("used", "is_coherent", "expected", "reads"),
    [
        pytest.param(500, True, 500, 2, id="at rest"),
        pytest.param([500, 700, 700], True, 700, 3, id="moved once"),
        pytest.param([500, 700, 900], False, 900, 3, id="kept moving"),
    ],
)
def test_memory_is_read_around_the_processes(
    fake_nvml: FakeNvml, used: Number, is_coherent: bool, expected: int, reads: int
) -> None:
    fake_nvml.play(Scenario(gpus=[FakeGpu(uuid="GPU-a", memory_used=used)]))
    sample = Bench().sample()
    assert sample.is_coherent is is_coherent
    assert sample.memory is not None
    assert sample.memory.used_bytes == expected
    assert fake_nvml.calls("nvmlDeviceGetMemoryInfo_v2", gpu=0) == reads


def test_memory_that_shrank_meanwhile_does_not_condemn_its_processes(fake_nvml: FakeNvml) -> None:
    gpu = FakeGpu(uuid="GPU-a", memory_used=[800, 700, 90], processes=[FakeProcess(41, 600)])
    fake_nvml.play(Scenario(gpus=[gpu]))
    bench = Bench()
    processes = bench.sample().processes
    assert processes is not None
    assert processes[0].used_bytes == 600
    assert not bench.source.errors


def test_processes_carry_their_names(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    (tmp_path / "self" / "ns").mkdir(parents=True)
    (tmp_path / "self" / "ns" / "pid").symlink_to("pid:[4026531836]")
    names = ProcessNames(tmp_path)
    processes = [FakeProcess(os.getpid(), 600)]
    fake_nvml.play(Scenario(gpus=[FakeGpu(uuid="GPU-a", memory_used=800, processes=processes)]))
    (process,) = Bench(names).sample().processes or ()
    assert process.name is not None
    assert process.name == names.name_of(os.getpid(), 0.0)


@pytest.mark.parametrize(
    ("gpu", "reason", "absent"),
    [
        pytest.param(
            FakeGpu(uuid="GPU-a", memory_used=NOT_AVAILABLE, memory_free=5),
            "invalid_memory",
            "memory",
            id="memory not available",
        ),
        pytest.param(
            FakeGpu(
                uuid="GPU-a",
                memory_used=900,
                processes=[FakeProcess(41, 300), FakeProcess(7, 200)],
                process_row_bytes=32,
            ),
            "invalid_processes",
            "processes",
            id="process rows of another layout",
        ),
        pytest.param(
            FakeGpu(uuid="GPU-a", memory_used=900, processes=[FakeProcess(41, 1000)]),
            "invalid_processes",
            "processes",
            id="processes above used",
        ),
        pytest.param(
            FakeGpu(uuid="GPU-a", utilization_memory=101),
            "invalid_utilization",
            "memory_controller_utilization_ratio",
            id="utilization above 100 %",
        ),
        pytest.param(
            FakeGpu(uuid="GPU-a", power_mw=0xFFFFFFFF),
            "invalid_power",
            "power_watts",
            id="power not available",
        ),
    ],
)
def test_a_figure_that_cannot_be_true_is_absent_and_counted(
    fake_nvml: FakeNvml, gpu: FakeGpu, reason: str, absent: str
) -> None:
    fake_nvml.play(Scenario(gpus=[gpu]))
    bench = Bench()
    sample = bench.sample()
    assert getattr(sample, absent) is None
    assert bench.source.errors == {reason: 1}
    assert sample.temperatures_celsius == {"gpu": 36.0, "memory": 41.0}


def test_a5_the_sentinel_of_64_bits_is_no_figure(fake_nvml: FakeNvml) -> None:
    unknown = FakeGpu(
        uuid="GPU-a",
        memory_total=NOT_AVAILABLE,
        memory_used=NOT_AVAILABLE,
        memory_free=NOT_AVAILABLE,
        processes=[FakeProcess(41, NOT_AVAILABLE)],
    )
    fake_nvml.play(Scenario(gpus=[unknown]))
    sample = Bench().sample()
    assert sample.memory is None
    assert sample.processes == (ProcessMemory(pid=41),)  # it is there, how large nobody says


def test_a2_rows_of_another_layout_are_dropped_and_counted(fake_nvml: FakeNvml) -> None:
    # two rows of 32 bytes read as rows of 24: the second is made of parts of both
    processes = [FakeProcess(41, 300), FakeProcess(7, 200)]
    gpu = FakeGpu(uuid="GPU-a", memory_used=900, processes=processes, process_row_bytes=32)
    fake_nvml.play(Scenario(gpus=[gpu]))
    bench = Bench()
    assert [bench.sample().processes for _ in range(2)] == [None, None]
    assert bench.source.errors == {"invalid_processes": 2}


def test_b8_a_pid_in_both_lists_is_one_process(fake_nvml: FakeNvml) -> None:
    processes = [FakeProcess(41, 300), FakeProcess(41, 200, "graphics")]
    gpu = FakeGpu(uuid="GPU-a", memory_used=900, processes=processes)
    fake_nvml.play(Scenario(gpus=[gpu]))
    assert Bench().sample().processes == (ProcessMemory(pid=41, used_bytes=300),)


def test_b6_a_pid_that_is_not_here_has_bytes_and_no_name(fake_nvml: FakeNvml) -> None:
    gpu = FakeGpu(uuid="GPU-a", memory_used=900, processes=[FakeProcess(3_999_999, 300)])
    fake_nvml.play(Scenario(gpus=[gpu]))
    sample = Bench(ProcessNames()).sample()
    assert sample.processes == (ProcessMemory(pid=3_999_999, used_bytes=300),)


def test_an_impossible_sensor_leaves_the_other(fake_nvml: FakeNvml) -> None:
    gpu = FakeGpu(uuid="GPU-a", temperature_gpu=0xFFFFFFFF, clock_memory_mhz=0xFFFFFFFF)
    fake_nvml.play(Scenario(gpus=[gpu]))
    bench = Bench()
    sample = bench.sample()
    assert sample.temperatures_celsius == {"memory": 41.0}
    assert sample.clocks_hertz == {"sm": 1.98e9}
    assert bench.source.errors == {"invalid_temperature": 1, "invalid_clock": 1}


def test_a_gpu_without_memory_figures_stays_up_and_shows_none(fake_nvml: FakeNvml) -> None:
    gpu = FakeGpu(
        uuid="GPU-a",
        processes=[FakeProcess(41, 7_000_000_000)],
        rc={"nvmlDeviceGetMemoryInfo": NOT_SUPPORTED, "nvmlDeviceGetMemoryInfo_v2": NOT_SUPPORTED},
    )
    fake_nvml.play(Scenario(gpus=[gpu]))
    sample = Bench().sample()
    assert sample.memory is None
    assert sample.processes == (ProcessMemory(pid=41, used_bytes=7_000_000_000),)


def test_one_failing_call_costs_one_figure(fake_nvml: FakeNvml) -> None:
    gpu = FakeGpu(uuid="GPU-a", rc={"nvmlDeviceGetPowerUsage": UNKNOWN})
    fake_nvml.play(Scenario(gpus=[gpu]))
    bench = Bench()
    sample = bench.sample()
    assert sample.power_watts is None
    assert sample.gpu_utilization_ratio == 0.37
    assert bench.source.errors == {"unknown": 1}


def test_a8_a_lost_gpu_stays_listed_and_hides_no_other(fake_nvml: FakeNvml) -> None:
    bench = Bench()
    fake_nvml.play(Scenario(gpus=gpus("GPU-a", "GPU-b", "GPU-c")))
    assert bench.lost() == []
    fake_nvml.play(Scenario(gpus=gpus("GPU-a", "GPU-b", "GPU-c", lost=["GPU-b"])))
    assert list(bench.samples()) == ["GPU-a", "GPU-b", "GPU-c"]
    assert bench.lost() == ["GPU-b"]
    assert bench.source.errors == {"gpu_is_lost": 2}


def test_the_only_gpu_stays_listed_when_it_is_lost(fake_nvml: FakeNvml) -> None:
    bench = Bench()
    fake_nvml.play(Scenario(gpus=gpus("GPU-a")))
    assert bench.lost() == []
    fake_nvml.play(Scenario(gpus=gpus("GPU-a", lost=["GPU-a"])))
    assert bench.lost() == ["GPU-a"]


def test_a_gpu_on_which_all_fails_has_no_sample(fake_nvml: FakeNvml) -> None:
    bench = Bench()
    fake_nvml.play(Scenario(gpus=gpus("GPU-a", "GPU-b")))
    bench.samples()
    failing = FakeGpu(uuid="GPU-b", rc={"*": UNKNOWN})
    fake_nvml.play(Scenario(gpus=[FakeGpu(uuid="GPU-a"), failing]))
    assert bench.lost() == ["GPU-b"]


def test_a_gpu_that_was_reset_is_found_again_half_a_minute_later(fake_nvml: FakeNvml) -> None:
    bench = Bench()
    fake_nvml.play(Scenario(gpus=gpus("GPU-a", "GPU-b")))
    bench.samples()
    fake_nvml.play(Scenario(gpus=gpus("GPU-a")))  # handles of GPU-b are void from here on
    assert bench.lost() == ["GPU-b"]
    bench.clock.advance(29.9)
    assert bench.lost() == ["GPU-b"]
    assert fake_nvml.calls("nvmlInitWithFlags") == 0
    bench.clock.advance(0.1)
    assert bench.lost() == ["GPU-b"]
    assert fake_nvml.calls("nvmlInitWithFlags") == 1
    fake_nvml.play(Scenario(gpus=gpus("GPU-a", "GPU-b")))
    bench.clock.advance(59.9)
    assert bench.lost() == ["GPU-b"]
    bench.clock.advance(0.1)
    assert bench.lost() == []


def test_a_gpu_keeps_its_identity_when_indices_change(fake_nvml: FakeNvml) -> None:
    bench = Bench()
    fake_nvml.play(Scenario(gpus=gpus("GPU-a", "GPU-b")))
    bench.samples()
    bench.source.close()
    swapped = [FakeGpu(uuid="GPU-b", memory_used=222), FakeGpu(uuid="GPU-a", memory_used=111)]
    fake_nvml.play(Scenario(gpus=swapped))
    devices = bench.source.read().devices
    assert [(d.facts.index, d.facts.uuid) for d in devices] == [(0, "GPU-b"), (1, "GPU-a")]
    used = {
        d.facts.uuid: d.sample.memory.used_bytes for d in devices if d.sample and d.sample.memory
    }
    assert used == {"GPU-a": 111, "GPU-b": 222}


@pytest.mark.parametrize(
    ("code", "reason", "fix"),
    [
        pytest.param(LIBRARY_NOT_FOUND, "library_not_found", "--no-nvml", id="no library"),
        pytest.param(DRIVER_NOT_LOADED, "driver_not_loaded", "modprobe nvidia", id="no driver"),
        pytest.param(NO_PERMISSION, "no_permission", "/dev/nvidiactl", id="no permission"),
        pytest.param(VERSION_MISMATCH, "lib_rm_version_mismatch", "reboot", id="upgraded"),
        pytest.param(UNKNOWN, "unknown", "restart the container", id="unknown error"),
    ],
)
def test_a_driver_that_cannot_be_opened_says_what_to_do(
    fake_nvml: FakeNvml, code: int, reason: str, fix: str
) -> None:
    fake_nvml.play(Scenario(gpus=gpus("GPU-a"), rc={"nvmlInitWithFlags": code}))
    with pytest.raises(SourceUnavailable) as raised:
        Bench().source.read()
    assert raised.value.reason == reason
    assert fix in raised.value.fix


def test_a_driver_without_a_gpu_says_so_until_one_comes(fake_nvml: FakeNvml) -> None:
    bench = Bench()
    with pytest.raises(SourceUnavailable, match="shows no GPU; compare with nvidia-smi -L"):
        bench.source.read()
    fake_nvml.play(Scenario(gpus=gpus("GPU-a")))
    assert bench.lost() == []


def test_gpus_that_may_not_be_opened_are_no_missing_gpus(fake_nvml: FakeNvml) -> None:
    forbidden = FakeGpu(uuid="GPU-a", rc={"nvmlDeviceGetHandleByIndex_v2": NO_PERMISSION})
    fake_nvml.play(Scenario(gpus=[forbidden]))
    with pytest.raises(SourceUnavailable, match="no access to the NVIDIA driver"):
        Bench().source.read()


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        pytest.param(UNINITIALIZED, "uninitialized", id="uninitialized"),
        pytest.param(DRIVER_NOT_LOADED, "driver_not_loaded", id="driver unloaded"),
        pytest.param(VERSION_MISMATCH, "lib_rm_version_mismatch", id="driver upgraded"),
        pytest.param(UNKNOWN, "unknown", id="unknown error on every GPU"),
    ],
)
def test_a9_a_driver_that_goes_away_is_opened_again_when_it_is_back(
    fake_nvml: FakeNvml, code: int, reason: str
) -> None:
    bench = Bench()
    fake_nvml.play(Scenario(gpus=gpus("GPU-a", "GPU-b")))
    assert bench.lost() == []
    fake_nvml.play(Scenario(gpus=gpus("GPU-a", "GPU-b"), rc={"*": code}))
    for _ in range(2):
        with pytest.raises(SourceUnavailable) as raised:
            bench.source.read()
        assert raised.value.reason == reason
    fake_nvml.play(Scenario(gpus=gpus("GPU-b", "GPU-a")))
    assert bench.lost() == []
    assert fake_nvml.calls("nvmlInitWithFlags") == 1


def test_a_version_mismatch_drops_the_library_of_the_old_driver(fake_nvml: FakeNvml) -> None:
    fake_nvml.play(Scenario(rc={"nvmlInitWithFlags": VERSION_MISMATCH}))
    with pytest.raises(SourceUnavailable):
        Bench().source.read()
    assert pynvml.nvmlLib is None


def test_nvml_is_opened_once_and_closed_once(fake_nvml: FakeNvml) -> None:
    fake_nvml.play(Scenario(gpus=gpus("GPU-a")))
    bench = Bench()
    bench.source.close()
    bench.source.read()
    bench.source.read()
    bench.source.close()
    bench.source.close()
    assert fake_nvml.calls("nvmlInitWithFlags") == 1
    assert fake_nvml.calls("nvmlShutdown") == 1
    assert fake_nvml.calls("nvmlDeviceGetName", gpu=0) == 1
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlDeviceGetCount()


def test_without_the_library_the_fix_is_named() -> None:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_LibraryNotFound:
        with pytest.raises(SourceUnavailable, match="give the container the NVIDIA runtime"):
            NvmlSource(0.5, ManualClock(TS_UNIX_NS)).read()
    else:
        pynvml.nvmlShutdown()
        pytest.skip("this machine has an NVIDIA driver")
