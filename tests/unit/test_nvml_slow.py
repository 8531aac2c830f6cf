"""Details of all GPUs through the real pynvml and the stand-in library, and how it lets go."""

import pynvml
import pytest

from exporter.errors import SourceUnavailable
from exporter.records.device_detail import DetailReading, DeviceDetail
from exporter.sources.nvml_slow import NvmlSlowSource
from tests.fake_nvml import FakeGpu, Scenario
from tests.fake_nvml.loading import FakeNvml
from tests.nvml_bench import TS_UNIX_NS, NvmlBench

NOT_SUPPORTED, GPU_IS_LOST, VERSION_MISMATCH, UNKNOWN = 3, 15, 18, 999
NOT_AVAILABLE, NOT_AVAILABLE_32 = (1 << 64) - 1, (1 << 32) - 1


class Bench(NvmlBench):
    """With the slow source as a guest."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = NvmlSlowSource(self.session, self.clock)

    def details(self) -> dict[str, DeviceDetail]:
        """Of the first reading, or of the one five seconds later."""
        self.opener.read()
        reading = self.slow.read()
        assert isinstance(reading, DetailReading)
        self.clock.advance(5.0)
        return reading.gpus

    def detail(self) -> DeviceDetail:
        (detail,) = self.details().values()
        return detail


def test_details_are_in_base_units(fake_nvml: FakeNvml) -> None:
    gpu = FakeGpu(
        uuid="GPU-a",
        energy_mj=2_895_846,
        power_limit_mw=700_500,
        bar1_total=274_877_906_944,
        bar1_used=1_703_936,
        ecc_corrected_volatile=7,
        ecc_uncorrected_volatile=2,
        ecc_corrected_aggregate=31,
        ecc_uncorrected_aggregate=5,
        remapped_rows=(4, 3, 1, 0),
        pcie_replays=11,
        pcie_generation=4,
        pcie_max_generation=5,
        pcie_lanes=8,
        pcie_max_lanes=16,
        nvlinks=[1, 0, 1],
        nvlink_transmit_kib=5000,
        nvlink_receive_kib=(1 << 40),
        nvlink_crc_flit_errors=21,
        nvlink_crc_data_errors=22,
        nvlink_replay_errors=23,
        nvlink_recovery_errors=24,
    )
    fake_nvml.play(Scenario(gpus=[gpu]))
    assert Bench().detail() == DeviceDetail(
        power_limit_watts=700.5,
        bar1_total_bytes=274_877_906_944,
        bar1_used_bytes=1_703_936,
        remapped_rows={"correctable": 4, "uncorrectable": 3, "pending": 1, "failure": 0},
        pcie_link_generation=4,
        pcie_link_max_generation=5,
        pcie_link_lanes=8,
        pcie_link_max_lanes=16,
        nvlinks={"up": 2, "down": 1},
        counters={
            "energy_joules": 2895.846,
            "pcie_replays": 11,
            "ecc_corrected_volatile": 7,
            "ecc_uncorrected_volatile": 2,
            "ecc_corrected_aggregate": 31,
            "ecc_uncorrected_aggregate": 5,
            "nvlink_transmit_bytes": 5_120_000,
            "nvlink_receive_bytes": 1 << 50,
            "nvlink_crc_flit_errors": 21,
            "nvlink_crc_data_errors": 22,
            "nvlink_replay_errors": 23,
            "nvlink_recovery_errors": 24,
        },
    )


def test_what_a_gpu_does_not_support_is_absent_and_told(fake_nvml: FakeNvml) -> None:
    without = FakeGpu(
        uuid="GPU-a",
        energy_mj=None,
        power_limit_mw=None,
        bar1_total=None,
        ecc_corrected_volatile=None,
        remapped_rows=None,
        pcie_replays=None,
        pcie_generation=None,
        pcie_max_generation=None,
        pcie_lanes=0,
        pcie_max_lanes=None,
    )
    fake_nvml.play(Scenario(gpus=[without]))
    bench = Bench()
    bench.opener.read()
    reading = bench.slow.read()
    assert reading == DetailReading(
        ts_unix_ns=TS_UNIX_NS,
        interval_s=5.0,
        gpus={"GPU-a": DeviceDetail()},
        capabilities={
            "energy": False,
            "power_limit": False,
            "bar1_memory": False,
            "ecc_errors": False,
            "remapped_rows": False,
            "pcie_replays": False,
            "pcie_generation": False,
            "pcie_max_generation": False,
            "pcie_lanes": True,
            "pcie_max_lanes": False,
            "nvlink_state": False,
            "nvlink_counters": False,
        },
    )
    assert not bench.slow.errors


@pytest.mark.parametrize(
    ("gpu", "reason", "field"),
    [
        pytest.param(
            FakeGpu(uuid="GPU-a", bar1_used=NOT_AVAILABLE), "invalid_bar1_memory",
            "bar1_used_bytes", id="BAR1",
        ),
        pytest.param(
            FakeGpu(uuid="GPU-a", power_limit_mw=NOT_AVAILABLE_32), "invalid_power_limit",
            "power_limit_watts", id="power limit",
        ),
        pytest.param(
            FakeGpu(uuid="GPU-a", pcie_lanes=NOT_AVAILABLE_32), "invalid_pcie_link",
            "pcie_link_lanes", id="lanes",
        ),
    ],
)  # fmt: skip
def test_a5_a_detail_that_cannot_be_true_is_absent_and_counted(
    fake_nvml: FakeNvml, gpu: FakeGpu, reason: str, field: str
) -> None:
    fake_nvml.play(Scenario(gpus=[gpu]))
    bench = Bench()
    assert getattr(bench.detail(), field) is None
    assert bench.slow.errors == {reason: 1}


@pytest.mark.parametrize(
    ("gpu", "counter"),
    [
        pytest.param(FakeGpu(uuid="GPU-a", energy_mj=NOT_AVAILABLE), "energy_joules", id="energy"),
        pytest.param(
            FakeGpu(uuid="GPU-a", pcie_replays=NOT_AVAILABLE_32), "pcie_replays", id="replays"
        ),
        pytest.param(
            FakeGpu(uuid="GPU-a", ecc_corrected_volatile=1 << 63), "ecc_corrected_volatile",
            id="ECC",
        ),
    ],
)  # fmt: skip
def test_a5_a_count_that_cannot_be_true_leaves_the_others(
    fake_nvml: FakeNvml, gpu: FakeGpu, counter: str
) -> None:
    fake_nvml.play(Scenario(gpus=[gpu]))
    bench = Bench()
    counters = bench.detail().counters
    assert counter not in counters
    assert len(counters) == 5
    assert bench.slow.errors == {"invalid_counter": 1}


def test_details_come_every_five_seconds(fake_nvml: FakeNvml) -> None:
    fake_nvml.play(Scenario(gpus=[FakeGpu(uuid="GPU-a")]))
    bench = Bench()
    bench.details()
    bench.clock.advance(-0.1)
    assert bench.slow.read() is None
    bench.clock.advance(0.1)
    reading = bench.slow.read()
    assert reading is not None
    assert reading.capabilities is None  # as before
    assert fake_nvml.calls("nvmlDeviceGetTotalEnergyConsumption", gpu=0) == 2


def test_without_an_open_gpu_there_is_nothing_to_read(fake_nvml: FakeNvml) -> None:
    fake_nvml.play(Scenario(gpus=[FakeGpu(uuid="GPU-a")]))
    bench = Bench()
    assert bench.slow.read() is None
    assert fake_nvml.users() == 0


def test_a8_a_gpu_lost_in_the_slow_lane_hides_no_other(fake_nvml: FakeNvml) -> None:
    lost = FakeGpu(uuid="GPU-b", rc={"nvmlDeviceGetTotalEnergyConsumption": GPU_IS_LOST})
    fake_nvml.play(Scenario(gpus=[FakeGpu(uuid="GPU-a"), lost, FakeGpu(uuid="GPU-c")]))
    bench = Bench()
    assert list(bench.details()) == ["GPU-a", "GPU-c"]
    assert bench.slow.errors == {"gpu_is_lost": 1}


def test_one_failing_call_costs_one_detail(fake_nvml: FakeNvml) -> None:
    gpu = FakeGpu(uuid="GPU-a", rc={"nvmlDeviceGetBAR1MemoryInfo": [UNKNOWN, 0]})
    fake_nvml.play(Scenario(gpus=[gpu]))
    bench = Bench()
    detail = bench.detail()
    assert detail.bar1_total_bytes is None
    assert detail.counters["energy_joules"] == 2895.846
    assert bench.detail().bar1_total_bytes == 274_877_906_944


def test_pcie_throughput_is_never_asked_for(fake_nvml: FakeNvml) -> None:
    fake_nvml.play(Scenario(gpus=[FakeGpu(uuid="GPU-a")]))
    Bench().details()
    assert fake_nvml.calls("nvmlDeviceGetPcieThroughput", gpu=0) == 0


def test_nvml_is_opened_anew_when_the_guest_has_let_go(fake_nvml: FakeNvml) -> None:
    bench = Bench()
    fake_nvml.play(Scenario(gpus=[FakeGpu(uuid="GPU-a"), FakeGpu(uuid="GPU-b")]))
    bench.details()
    assert fake_nvml.users() == 2
    fake_nvml.play(Scenario(gpus=[FakeGpu(uuid="GPU-a")]))
    bench.opener.read()
    bench.clock.advance(30.0)
    sample_of_a = bench.opener.read().devices[0].sample
    assert sample_of_a is not None  # read on while the guest is still in
    assert fake_nvml.calls("nvmlInitWithFlags") == 0
    assert bench.slow.read() is None  # the guest lets go
    assert fake_nvml.users() == 1
    bench.opener.read()
    assert fake_nvml.calls("nvmlInitWithFlags") == 1
    reading = bench.slow.read()
    assert reading is not None
    assert list(reading.gpus) == ["GPU-a"]
    assert fake_nvml.users() == 2


def test_a_guest_that_hangs_holds_nothing_up_for_long(fake_nvml: FakeNvml) -> None:
    bench = Bench()
    fake_nvml.play(Scenario(gpus=[FakeGpu(uuid="GPU-a"), FakeGpu(uuid="GPU-b")]))
    bench.details()
    lost = FakeGpu(uuid="GPU-b", rc={"*": GPU_IS_LOST})
    fake_nvml.play(Scenario(gpus=[FakeGpu(uuid="GPU-a"), lost]))
    bench.opener.read()
    bench.clock.advance(31.9)
    bench.opener.read()
    assert fake_nvml.calls("nvmlInitWithFlags") == 0
    bench.clock.advance(0.1)
    bench.opener.read()
    assert fake_nvml.calls("nvmlInitWithFlags") == 1


def test_a_gpu_that_comes_back_while_the_guest_leaves_gets_its_details_again(
    fake_nvml: FakeNvml,
) -> None:
    bench = Bench()
    both = [FakeGpu(uuid="GPU-a"), FakeGpu(uuid="GPU-b")]
    fake_nvml.play(Scenario(gpus=both))
    bench.details()
    lost = FakeGpu(uuid="GPU-b", rc={"*": GPU_IS_LOST})
    fake_nvml.play(Scenario(gpus=[both[0], lost]))
    bench.opener.read()
    fake_nvml.play(Scenario(gpus=both))
    bench.clock.advance(30.0)
    bench.opener.read()
    assert bench.slow.read() is None
    assert list(bench.details()) == ["GPU-a", "GPU-b"]


def test_a10_a_release_lets_go_of_every_handle_until_it_is_taken_back(fake_nvml: FakeNvml) -> None:
    bench = Bench()
    fake_nvml.play(Scenario(gpus=[FakeGpu(uuid="GPU-a")]))
    bench.details()
    bench.session.is_released = True
    with pytest.raises(SourceUnavailable, match="SIGUSR1 again") as raised:
        bench.opener.read()
    assert not raised.value.backs_off
    assert bench.slow.read() is None
    assert fake_nvml.users() == 0
    with pytest.raises(SourceUnavailable):
        bench.opener.read()
    assert fake_nvml.users() == 0
    bench.session.is_released = False
    assert list(bench.details()) == ["GPU-a"]


def test_the_end_lets_go(fake_nvml: FakeNvml) -> None:
    bench = Bench()
    fake_nvml.play(Scenario(gpus=[FakeGpu(uuid="GPU-a")]))
    bench.details()
    bench.opener.close()
    bench.slow.close()
    bench.slow.close()
    assert fake_nvml.users() == 0


def test_a9_the_library_of_an_old_driver_stays_while_a_guest_is_in_it(fake_nvml: FakeNvml) -> None:
    bench = Bench()
    fake_nvml.play(Scenario(gpus=[FakeGpu(uuid="GPU-a")]))
    bench.details()
    fake_nvml.play(Scenario(gpus=[FakeGpu(uuid="GPU-a")], rc={"*": VERSION_MISMATCH}))
    with pytest.raises(SourceUnavailable):
        bench.opener.read()
    assert pynvml.nvmlLib is not None
    bench.slow.read()
    with pytest.raises(SourceUnavailable):
        bench.opener.read()
    assert pynvml.nvmlLib is None
    fake_nvml.play(Scenario(gpus=[FakeGpu(uuid="GPU-a")]))
    assert list(bench.details()) == ["GPU-a"]
