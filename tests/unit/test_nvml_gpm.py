"""Windows of GPM through the real pynvml and the stand-in library."""

import math
from typing import Any

import pytest

from exporter.records.device_detail import DeviceProfile
from exporter.sources.nvml_gpm import NvmlGpmSource
from tests.fake_nvml import FakeGpu, Real, Scenario
from tests.fake_nvml.loading import FakeNvml
from tests.nvml_bench import NvmlBench

NOT_SUPPORTED, NO_PERMISSION, GPU_IS_LOST = 3, 4, 15


class Bench(NvmlBench):
    """With GPM as a guest."""

    def __init__(self) -> None:
        super().__init__()
        self.gpm = NvmlGpmSource(self.session, self.clock)

    def profiles(self, after_s: float = 1.0) -> dict[str, DeviceProfile]:
        """Of the windows that end so much later."""
        self.read(after_s)
        reading = self.gpm.read()
        assert reading is not None
        return reading.gpus


def gpu(uuid: str = "GPU-a", dram: Real = 88.25, **fields: Any) -> FakeGpu:
    """A GPU that copies memory."""
    figures = {"gpm_sm": 99.5, "gpm_occupancy": 80.5, "gpm_tensor": 12.5, **fields}
    return FakeGpu(uuid=uuid, gpm_dram=dram, **figures)


def test_a_window_is_in_ratios_and_bytes(fake_nvml: FakeNvml) -> None:
    bench = Bench()
    links = gpu(gpm_pcie_tx=3, gpm_pcie_rx=5, gpm_nvlink_tx=7, gpm_nvlink_rx=0.5)
    fake_nvml.play(Scenario(gpus=[links]))
    assert bench.profiles() == {}  # the first window has no beginning
    assert bench.profiles() == {
        "GPU-a": DeviceProfile(
            dram_bandwidth_utilization_ratio=0.8825,
            sm_utilization_ratio=0.995,
            sm_occupancy_ratio=0.805,
            tensor_utilization_ratio=0.125,
            pcie_transmit_bytes_per_second=3_145_728,
            pcie_receive_bytes_per_second=5_242_880,
            nvlink_transmit_bytes_per_second=7_340_032,
            nvlink_receive_bytes_per_second=524_288,
        )
    }


def test_a_metric_that_the_part_lacks_is_absent(fake_nvml: FakeNvml) -> None:
    bench = Bench()
    fake_nvml.play(Scenario(gpus=[gpu(gpm_tensor=None)]))
    bench.profiles()
    profile = bench.profiles()["GPU-a"]
    assert profile.tensor_utilization_ratio is None
    assert profile.pcie_transmit_bytes_per_second is None
    assert profile.sm_utilization_ratio == 0.995


def test_an_empty_window_is_no_sample_and_the_next_one_is(fake_nvml: FakeNvml) -> None:
    # NVML's own way to say nothing, recorded on an H200: no error, NaN, and 0 for the rest
    bench = Bench()
    empty = gpu(dram=[math.nan, 53.0], gpm_sm=[0, 66], gpm_occupancy=0, gpm_tensor=0)
    fake_nvml.play(Scenario(gpus=[empty]))
    bench.profiles()
    assert bench.profiles() == {}
    assert bench.gpm.errors == {"empty_window": 1}
    assert bench.profiles()["GPU-a"].dram_bandwidth_utilization_ratio == 0.53


@pytest.mark.parametrize(
    ("figure", "expected"),
    [(math.nan, None), (math.inf, None), (-1.0, None), (100.5, None), (100.0, 1.0), (0.0, 0.0)],
)
def test_a_ratio_that_cannot_be_true_is_absent(
    fake_nvml: FakeNvml, figure: float, expected: float | None
) -> None:
    bench = Bench()
    fake_nvml.play(Scenario(gpus=[gpu(gpm_tensor=figure)]))
    bench.profiles()
    profile = bench.profiles()["GPU-a"]
    assert profile.tensor_utilization_ratio == expected
    assert profile.dram_bandwidth_utilization_ratio == 0.8825
    assert bench.gpm.errors == ({"invalid_profile": 1} if expected is None else {})


def test_a13_zeros_under_load_are_dropped_and_counted(fake_nvml: FakeNvml) -> None:
    bench = Bench()
    fake_nvml.play(Scenario(gpus=[gpu(dram=0, gpm_sm=0, utilization_gpu=100)]))
    bench.profiles()
    assert [bench.profiles() for _ in range(2)] == [{}, {}]
    assert bench.gpm.errors == {}  # a load may just have begun
    assert [bench.profiles() for _ in range(2)] == [{}, {}]
    assert bench.gpm.errors == {"suspect_zero": 2}
    fake_nvml.play(Scenario(gpus=[gpu()]))
    assert list(bench.profiles()) == ["GPU-a"]


def test_a13_zeros_of_an_idle_gpu_are_figures(fake_nvml: FakeNvml) -> None:
    bench = Bench()
    fake_nvml.play(Scenario(gpus=[gpu(dram=0, gpm_sm=0, utilization_gpu=50)]))
    bench.profiles()
    assert bench.profiles()["GPU-a"].dram_bandwidth_utilization_ratio == 0


def test_a_window_too_short_goes_on(fake_nvml: FakeNvml) -> None:
    bench = Bench()
    fake_nvml.play(Scenario(gpus=[gpu()]))
    bench.profiles()
    assert bench.profiles(after_s=0.19) == {}
    assert fake_nvml.calls("nvmlGpmMetricsGet", gpu=0) == 0
    assert list(bench.profiles(after_s=0.81)) == ["GPU-a"]


def test_a_gpu_without_gpm_is_asked_once(fake_nvml: FakeNvml) -> None:
    bench = Bench()
    fake_nvml.play(Scenario(gpus=[FakeGpu(uuid="GPU-a"), gpu("GPU-b")]))
    bench.read()
    reading = bench.gpm.read()
    assert reading is not None
    assert reading.capabilities == {"gpm": False}
    assert list(bench.profiles()) == ["GPU-b"]
    assert fake_nvml.calls("nvmlGpmQueryDeviceSupport", gpu=0) == 1
    assert not bench.gpm.errors


def test_a_gpu_that_only_claims_to_have_gpm_is_asked_once(fake_nvml: FakeNvml) -> None:
    bench = Bench()
    fake_nvml.play(Scenario(gpus=[gpu(rc={"nvmlGpmSampleGet": NOT_SUPPORTED})]))
    bench.read()
    reading = bench.gpm.read()
    assert reading is not None
    assert reading.capabilities == {"gpm": False}
    assert bench.profiles() == {}
    assert fake_nvml.calls("nvmlGpmSampleGet", gpu=0) == 1
    assert not bench.gpm.errors


@pytest.mark.parametrize(
    ("function", "code", "reason"),
    [
        ("nvmlGpmSampleGet", NO_PERMISSION, "no_permission"),
        ("nvmlGpmMetricsGet", GPU_IS_LOST, "gpu_is_lost"),
    ],
)
def test_a8_a_gpu_that_fails_hides_no_other(
    fake_nvml: FakeNvml, function: str, code: int, reason: str
) -> None:
    bench = Bench()
    fake_nvml.play(Scenario(gpus=[gpu(rc={function: code}), gpu("GPU-b")]))
    bench.profiles()
    assert list(bench.profiles()) == ["GPU-b"]
    assert bench.gpm.errors[reason] >= 1


def test_samples_are_given_back(fake_nvml: FakeNvml) -> None:
    bench = Bench()
    fake_nvml.play(Scenario(gpus=[gpu(), gpu("GPU-b"), FakeGpu(uuid="GPU-c")]))
    for _ in range(3):
        bench.profiles()
    assert fake_nvml.gpm_samples() == 4
    bench.gpm.close()
    assert fake_nvml.gpm_samples() == 0
    assert fake_nvml.users() == 1
