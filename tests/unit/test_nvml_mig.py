"""MIG devices through the real pynvml and the stand-in library."""

from collections.abc import Sequence

import pytest

from exporter.errors import SourceUnavailable
from exporter.records.device import DeviceMemory, MigDevice, ProcessMemory
from tests.fake_nvml import FakeGpu, FakeMig, FakeProcess, Scenario
from tests.fake_nvml.loading import FakeNvml
from tests.nvml_bench import NvmlBench

INVALID_ARGUMENT, GPU_IS_LOST, UNKNOWN, DRIVER_NOT_LOADED = 2, 15, 999, 9
MEMORY = "nvmlDeviceGetMemoryInfo_v2"


def partitioned(migs: Sequence[FakeMig | None], **fields: object) -> FakeGpu:
    """An H200 in MIG mode."""
    return FakeGpu(uuid="GPU-a", mig_mode=1, migs=migs, **fields)  # type: ignore[arg-type]


LARGE = FakeMig(
    uuid="MIG-large", profile="4g.71gb", gpu_instance=1, total=70_000, used=900, reserved=100
)
SMALL = FakeMig(
    uuid="MIG-small", profile="1g.18gb", gpu_instance=9, total=18_000, used=50, reserved=7
)


def test_each_mig_device_has_its_own_memory_and_processes(fake_nvml: FakeNvml) -> None:
    processes = [FakeProcess(41, 800, mig=0), FakeProcess(7, 40, mig=2)]
    gpu = partitioned([LARGE, None, SMALL], processes=processes, memory_used=1_500)
    fake_nvml.play(Scenario(gpus=[gpu]))
    sample = NvmlBench().sample()
    assert sample.mig == (
        MigDevice(
            uuid="MIG-large",
            gpu_instance_id=1,
            compute_instance_id=0,
            profile="4g.71gb",
            memory=DeviceMemory(
                total_bytes=70_000, used_bytes=900, free_bytes=69_000, reserved_bytes=100
            ),
            processes=(ProcessMemory(pid=41, used_bytes=800),),
        ),
        MigDevice(
            uuid="MIG-small",
            gpu_instance_id=9,
            compute_instance_id=0,
            profile="1g.18gb",
            memory=DeviceMemory(
                total_bytes=18_000, used_bytes=50, free_bytes=17_943, reserved_bytes=7
            ),
            processes=(ProcessMemory(pid=7, used_bytes=40),),
        ),
    )
    assert sample.memory is not None
    assert sample.memory.used_bytes == 1_500  # the GPU's own, once
    assert sample.processes == (
        ProcessMemory(pid=7, used_bytes=40),
        ProcessMemory(pid=41, used_bytes=800),
    )


def test_a7_compute_instances_that_share_memory_tell_it_once(fake_nvml: FakeNvml) -> None:
    second = FakeMig(uuid="MIG-second", gpu_instance=1, compute_instance=1, total=70_000)
    fake_nvml.play(Scenario(gpus=[partitioned([second, LARGE, SMALL])]))
    devices = NvmlBench().sample().mig
    assert [device.uuid for device in devices] == ["MIG-large", "MIG-second", "MIG-small"]
    assert [device.memory.total_bytes if device.memory else None for device in devices] == [
        70_000,
        None,
        18_000,
    ]
    assert all(device.is_up for device in devices)


def test_a10_a_gpu_that_is_partitioned_anew_shows_its_new_devices(fake_nvml: FakeNvml) -> None:
    bench = NvmlBench()
    fake_nvml.play(Scenario(gpus=[partitioned([LARGE])]))
    assert [device.uuid for device in bench.sample().mig] == ["MIG-large"]
    fake_nvml.play(Scenario(gpus=[partitioned([None, SMALL])]))
    (gone,) = bench.sample(0.5).mig
    assert not gone.is_up
    assert gone.memory is None
    assert [device.uuid for device in bench.sample(1.0).mig] == ["MIG-small"]
    assert fake_nvml.calls("nvmlInitWithFlags") == 0


def test_devices_are_looked_for_every_ten_seconds(fake_nvml: FakeNvml) -> None:
    bench = NvmlBench()
    fake_nvml.play(Scenario(gpus=[partitioned([])]))
    assert bench.sample().mig == ()
    fake_nvml.play(Scenario(gpus=[partitioned([SMALL])]))
    assert bench.sample(9.9).mig == ()
    assert [device.uuid for device in bench.sample(0.1).mig] == ["MIG-small"]


def test_one_mig_device_that_fails_hides_no_other(fake_nvml: FakeNvml) -> None:
    bench = NvmlBench()
    rules = {f"{call}@0": GPU_IS_LOST for call in (MEMORY, "nvmlDeviceGetMemoryInfo")}
    fake_nvml.play(Scenario(gpus=[partitioned([LARGE, SMALL], rc=rules)]))
    large, small = bench.sample().mig
    assert not large.is_up
    assert small.is_up
    assert small.memory is not None
    assert bench.opener.errors == {"gpu_is_lost": 1}


def test_a_driver_that_goes_away_is_not_taken_for_a_lost_mig_device(fake_nvml: FakeNvml) -> None:
    bench = NvmlBench()
    fake_nvml.play(Scenario(gpus=[partitioned([LARGE])]))
    bench.sample()
    gone = partitioned([LARGE], rc={f"{MEMORY}@0": DRIVER_NOT_LOADED})
    fake_nvml.play(Scenario(gpus=[gone]))
    with pytest.raises(SourceUnavailable):
        bench.sample()


def test_a10_a_device_that_was_made_anew_as_it_was_is_read_again(fake_nvml: FakeNvml) -> None:
    """Its UUID is the same, but the handle that was good for it is not."""
    bench = NvmlBench()
    fake_nvml.play(Scenario(gpus=[partitioned([LARGE])]))
    bench.sample()
    fake_nvml.play(Scenario(gpus=[partitioned([None, LARGE])]))
    assert [device.is_up for device in bench.sample(0.5).mig] == [False]
    assert [device.is_up for device in bench.sample(1.0).mig] == [True]


@pytest.mark.parametrize("call", ["nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount"])
def test_a_list_of_devices_that_fails_keeps_those_that_are_known(
    fake_nvml: FakeNvml, call: str
) -> None:
    bench = NvmlBench()
    fake_nvml.play(Scenario(gpus=[partitioned([LARGE])]))
    bench.sample()
    failing = partitioned([LARGE], rc={call: UNKNOWN})
    fake_nvml.play(Scenario(gpus=[failing]))
    assert [device.uuid for device in bench.sample(10.0).mig] == ["MIG-large"]
    assert bench.opener.errors == {"unknown": 1}


@pytest.mark.parametrize("mode", [0, None], ids=["off", "not supported"])
def test_without_mig_mode_nothing_is_looked_for(fake_nvml: FakeNvml, mode: int | None) -> None:
    fake_nvml.play(Scenario(gpus=[FakeGpu(uuid="GPU-a", mig_mode=mode, migs=[LARGE])]))
    assert NvmlBench().sample().mig == ()
    assert fake_nvml.calls("nvmlDeviceGetMigDeviceHandleByIndex", gpu=0) == 0
