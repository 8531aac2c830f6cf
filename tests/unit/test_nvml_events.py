"""Xid errors through the real pynvml and the stand-in library."""

from exporter.records.device_detail import XidReading
from exporter.sources.nvml_events import NvmlEventsSource
from tests.fake_nvml import FakeGpu, Scenario
from tests.fake_nvml.loading import FakeNvml
from tests.nvml_bench import TS_UNIX_NS, NvmlBench

NOT_SUPPORTED, GPU_IS_LOST, UNKNOWN = 3, 15, 999


class Bench(NvmlBench):
    """With the source of events as a guest."""

    def __init__(self) -> None:
        super().__init__()
        self.events = NvmlEventsSource(self.session, self.clock)

    def xids(self) -> list[tuple[str, int]]:
        """Errors since the last time."""
        self.opener.read()
        reading = self.events.read()
        return [(event.uuid, event.xid) for event in reading.events] if reading else []


def test_every_error_is_told_once_also_when_it_repeats(fake_nvml: FakeNvml) -> None:
    bench = Bench()
    gpus = [FakeGpu(uuid="GPU-a", xid_events=[48, 63, 48]), FakeGpu(uuid="GPU-b", xid_events=[13])]
    fake_nvml.play(Scenario(gpus=gpus))
    expected = [("GPU-a", 48), ("GPU-a", 63), ("GPU-a", 48), ("GPU-b", 13)]
    assert bench.xids() == expected
    assert bench.xids() == []


def test_the_first_reading_says_that_errors_are_listened_for(fake_nvml: FakeNvml) -> None:
    bench = Bench()
    fake_nvml.play(Scenario(gpus=[FakeGpu(uuid="GPU-a")]))
    bench.opener.read()
    assert bench.events.read() == XidReading(
        ts_unix_ns=TS_UNIX_NS, capabilities={"xid_events": True}
    )
    assert bench.events.read() is None


def test_a_gpu_that_reports_no_errors_is_told_and_not_asked_again(fake_nvml: FakeNvml) -> None:
    bench = Bench()
    deaf = FakeGpu(uuid="GPU-b", rc={"nvmlDeviceRegisterEvents": NOT_SUPPORTED})
    fake_nvml.play(Scenario(gpus=[FakeGpu(uuid="GPU-a", xid_events=[13]), deaf]))
    bench.opener.read()
    reading = bench.events.read()
    assert reading is not None
    assert reading.capabilities == {"xid_events": False}
    assert [event.uuid for event in reading.events] == ["GPU-a"]
    bench.events.read()
    assert fake_nvml.calls("nvmlDeviceRegisterEvents", gpu=1) == 1
    assert fake_nvml.event_sets() == 1
    assert not bench.events.errors


def test_a8_a_lost_gpu_keeps_no_others_errors_back(fake_nvml: FakeNvml) -> None:
    bench = Bench()
    fake_nvml.play(Scenario(gpus=[FakeGpu(uuid="GPU-a"), FakeGpu(uuid="GPU-b")]))
    assert bench.xids() == []
    lost = FakeGpu(uuid="GPU-a", xid_events=[79], rc={"nvmlEventSetWait_v2": [0, GPU_IS_LOST]})
    fake_nvml.play(Scenario(gpus=[lost, FakeGpu(uuid="GPU-b", xid_events=[48])]))
    assert bench.xids() == [("GPU-a", 79), ("GPU-b", 48)]
    assert bench.events.errors == {"gpu_is_lost": 1}


def test_errors_are_told_again_after_nvml_was_opened_anew(fake_nvml: FakeNvml) -> None:
    bench = Bench()
    fake_nvml.play(Scenario(gpus=[FakeGpu(uuid="GPU-a")]))
    bench.xids()
    bench.opener.close()
    assert bench.events.read() is None
    assert fake_nvml.event_sets() == 0
    assert fake_nvml.users() == 0
    fake_nvml.play(Scenario(gpus=[FakeGpu(uuid="GPU-a", xid_events=[74])]))
    assert bench.xids() == [("GPU-a", 74)]
    bench.events.close()
    assert fake_nvml.event_sets() == 0


def test_a_set_that_could_not_be_made_is_tried_again(fake_nvml: FakeNvml) -> None:
    bench = Bench()
    gpu = FakeGpu(uuid="GPU-a", xid_events=[13], rc={"nvmlDeviceRegisterEvents": [UNKNOWN, 0]})
    fake_nvml.play(Scenario(gpus=[gpu]))
    assert bench.xids() == []
    assert fake_nvml.event_sets() == 0
    assert bench.xids() == [("GPU-a", 13)]
    assert bench.events.errors == {"unknown": 1}
