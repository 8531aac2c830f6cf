"""Holders of GPUs from tick to tick: joined on uuid, gone with their pod and with the kubelet."""

from exporter.clock import ManualClock
from exporter.pipeline import Pipeline
from exporter.records.device import Device, DeviceFacts, DeviceSample, MigDevice
from exporter.records.pods import GpuHolder, PodReading
from tests.readings import START_UNIX_NS, UUID, device, device_reading

OTHER = "GPU-00000000-0000-0000-0000-00000000000b"
SLICE = "MIG-00000000-0000-0000-0000-00000000000c"


def pods(at_s: float, **holders: str) -> PodReading:
    """Pods by name with the uuid that each holds, as told every 10 s."""
    return PodReading(
        ts_unix_ns=START_UNIX_NS + round(at_s * 1e9),
        interval_s=10.0,
        holders=tuple(GpuHolder(uuid, "serving", name, "vllm") for name, uuid in holders.items()),
    )


class Ticking:
    """A pipeline whose clock stands until it is stepped."""

    def __init__(self) -> None:
        self.clock = ManualClock(START_UNIX_NS)
        self.pipeline = Pipeline(self.clock, 0.5)

    def shown(self, *readings: PodReading, at_s: float) -> list[tuple[str, int | None]]:
        """Pods with their devices in the View of `at_s`."""
        self.clock.advance(at_s - (self.clock.unix_ns() - START_UNIX_NS) / 1e9)
        for reading in readings:
            self.pipeline.offer(reading)
        return [(seen.holder.pod, seen.device) for seen in self.pipeline.tick().gpu_holders]


def test_a_holder_is_joined_to_its_gpu_whichever_of_both_is_known_first() -> None:
    ticking = Ticking()
    assert ticking.shown(pods(0, blue=OTHER, no="GPU-x"), at_s=0) == [
        ("blue", None),
        ("no", None),
    ]
    ticking.pipeline.offer(device_reading(device(), device(index=3, uuid=OTHER)))
    assert ticking.shown(at_s=0) == [("blue", 3), ("no", None)]
    assert ticking.shown(pods(1, green=UUID), at_s=1) == [("green", 0)]


def test_a_slice_has_the_device_of_its_gpu() -> None:
    mig = MigDevice(uuid=SLICE, gpu_instance_id=2, compute_instance_id=0, profile="3g", is_up=True)
    gpu = Device(facts=DeviceFacts(index=4, uuid=UUID), sample=DeviceSample(mig=(mig,)))
    ticking = Ticking()
    ticking.pipeline.offer(device_reading(gpu))
    assert ticking.shown(pods(0, blue=SLICE), at_s=0) == [("blue", 4)]


def test_who_is_no_longer_listed_is_gone() -> None:
    ticking = Ticking()
    assert ticking.shown(pods(0, blue=UUID, green=UUID), at_s=0) == [
        ("blue", None),
        ("green", None),
    ]
    assert ticking.shown(pods(10, green=UUID), at_s=10) == [("green", None)]
    assert ticking.shown(pods(20), at_s=20) == []


def test_three_intervals_after_the_last_answer_nobody_is_known_until_the_next() -> None:
    ticking = Ticking()
    assert ticking.shown(pods(0, blue=UUID), at_s=2) == [("blue", None)]
    assert ticking.shown(at_s=30) == [("blue", None)]
    assert ticking.shown(at_s=30.5) == []
    assert ticking.shown(pods(31, blue=UUID), at_s=31) == [("blue", None)]
