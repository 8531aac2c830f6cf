"""The calls of one GPU against the stand-in library: fallbacks, capabilities, failures."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from exporter.sources.nvml_calls import GpuCalls
from tests.fake_nvml import FakeGpu, FakeProcess, Scenario, build
from tests.fake_nvml.loading import FakeNvml, loaded
from tests.programs import require_program

NOT_SUPPORTED, NO_PERMISSION, GPU_IS_LOST, UNKNOWN = 3, 4, 15, 999


def calls_of(fake: FakeNvml, gpu: FakeGpu, errors: Counter[str] | None = None) -> GpuCalls:
    fake.play(Scenario(gpus=[gpu]))
    pynvml.nvmlInit()
    return GpuCalls(
        pynvml.nvmlDeviceGetHandleByIndex(0), errors if errors is not None else Counter()
    )


@pytest.fixture
def old_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeNvml]:
    """A library without the functions that came with drivers 470 to 535."""
    missing = (
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetGraphicsRunningProcesses_v3",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetSupportedClocksEventReasons",
    )
    require_program("gcc")
    with loaded(build(tmp_path, missing), tmp_path, monkeypatch) as fake:
        yield fake


def test_every_figure_is_read_in_nvmls_units(fake_nvml: FakeNvml) -> None:
    calls = calls_of(
        fake_nvml,
        FakeGpu(
            uuid="GPU-a",
            memory_total=1000,
            memory_reserved=100,
            memory_used=300,
            utilization_gpu=37,
            utilization_memory=12,
            power_mw=412_345,
            temperature_gpu=36,
            temperature_memory=41,
            clock_sm_mhz=1980,
            clock_memory_mhz=3201,
            processes=[FakeProcess(41, 200), FakeProcess(7, None, "graphics")],
        ),
    )
    assert calls.memory() == (1000, 300, 600, 100)
    assert calls.process_rows() == [(41, 200), (7, None)]
    assert calls.utilization() == (37, 12)
    assert calls.power() == 412_345
    assert calls.temperature_gpu() == 36
    assert calls.temperature_memory() == 41
    assert calls.clock_sm() == 1980
    assert calls.clock_memory() == 3201


def test_event_reasons_are_those_that_the_gpu_supports(fake_nvml: FakeNvml) -> None:
    gpu = FakeGpu(uuid="GPU-a", event_reasons=0x44, event_reasons_supported=0x4D)
    assert calls_of(fake_nvml, gpu).active_event_reasons() == {
        "gpu_idle": False,
        "sw_power_cap": True,
        "hw_slowdown": False,
        "hw_thermal_slowdown": True,
    }


def test_a4_an_old_driver_is_read_through_the_older_functions(old_driver: FakeNvml) -> None:
    calls = calls_of(
        old_driver,
        FakeGpu(
            uuid="GPU-a",
            memory_total=1000,
            memory_reserved=100,
            memory_used=300,
            processes=[FakeProcess(41, 200), FakeProcess(7, 50, "graphics")],
            event_reasons=0x4,
            event_reasons_supported=0x5,
        ),
    )
    assert calls.memory() == (1000, 400, 600, None)
    assert calls.process_rows() == [(41, 200), (7, 50)]
    assert calls.active_event_reasons() == {"gpu_idle": False, "sw_power_cap": True}
    assert calls.capabilities() == {
        "memory_v2": False,
        "memory_v1": True,
        "processes": False,
        "processes_v2": True,
        "graphics_processes": False,
        "graphics_processes_v2": True,
        "event_reasons": False,
        "throttle_reasons": True,
    }


def test_an_unsupported_call_is_made_once(fake_nvml: FakeNvml) -> None:
    errors: Counter[str] = Counter()
    gpu = FakeGpu(uuid="GPU-a", rc={"nvmlDeviceGetPowerUsage": NOT_SUPPORTED})
    calls = calls_of(fake_nvml, gpu, errors)
    assert [calls.power(), calls.power(), calls.power()] == [None, None, None]
    assert fake_nvml.calls("nvmlDeviceGetPowerUsage", gpu=0) == 1
    assert calls.capabilities() == {"power": False}
    assert not errors


def test_a_failed_call_is_counted_and_made_again(fake_nvml: FakeNvml) -> None:
    errors: Counter[str] = Counter()
    gpu = FakeGpu(uuid="GPU-a", power_mw=250_000, rc={"nvmlDeviceGetPowerUsage": [UNKNOWN, 0]})
    calls = calls_of(fake_nvml, gpu, errors)
    assert calls.power() is None
    assert isinstance(calls.failure(), pynvml.NVMLError_Unknown)
    assert calls.power() == 250_000
    assert calls.failure() is None
    assert errors == {"unknown": 1}


def test_a_code_that_pynvml_does_not_know_is_one_reason(fake_nvml: FakeNvml) -> None:
    errors: Counter[str] = Counter()
    calls = calls_of(fake_nvml, FakeGpu(uuid="GPU-a", rc={"nvmlDeviceGetPowerUsage": 777}), errors)
    assert calls.power() is None
    assert errors == {"unrecognised_error": 1}


def test_a_lost_gpu_is_raised(fake_nvml: FakeNvml) -> None:
    calls = calls_of(fake_nvml, FakeGpu(uuid="GPU-a", rc={"nvmlDeviceGetPowerUsage": GPU_IS_LOST}))
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        calls.power()


def test_one_failed_process_list_leaves_no_half_list(fake_nvml: FakeNvml) -> None:
    gpu = FakeGpu(
        uuid="GPU-a",
        processes=[FakeProcess(41, 200)],
        rc={"nvmlDeviceGetGraphicsRunningProcesses_v3": NO_PERMISSION},
    )
    assert calls_of(fake_nvml, gpu).process_rows() is None


def test_one_unsupported_process_list_leaves_the_other(fake_nvml: FakeNvml) -> None:
    gpu = FakeGpu(
        uuid="GPU-a",
        processes=[FakeProcess(41, 200)],
        rc={
            "nvmlDeviceGetGraphicsRunningProcesses_v3": NOT_SUPPORTED,
            "nvmlDeviceGetGraphicsRunningProcesses_v2": NOT_SUPPORTED,
        },
    )
    assert calls_of(fake_nvml, gpu).process_rows() == [(41, 200)]


def test_a_field_that_fails_alone_is_not_zero_degrees(fake_nvml: FakeNvml) -> None:
    calls = calls_of(fake_nvml, FakeGpu(uuid="GPU-a", temperature_memory=None))
    assert calls.temperature_memory() is None
    assert calls.capabilities() == {"temperature_memory": False}


def test_a_memory_sensor_that_says_zero_is_none(fake_nvml: FakeNvml) -> None:
    calls = calls_of(fake_nvml, FakeGpu(uuid="GPU-a", temperature_memory=0))
    assert calls.temperature_memory() is None
