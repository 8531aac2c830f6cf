"""What slower lanes tell of a GPU, in the View and in a recording that starts again."""

from typing import Any

import pytest

from exporter.clock import ManualClock
from exporter.pipeline import Pipeline
from exporter.records.codec import RecordingHeader, decode_line, encode_line
from exporter.records.device_detail import (
    DetailReading,
    DeviceDetail,
    DeviceProfile,
    LaneReading,
    ProfileReading,
    XidEvent,
    XidReading,
)
from exporter.records.source import Reading
from exporter.records.view import DeviceView
from exporter.sources.recording import Event, Recording
from tests.readings import START_UNIX_NS, UUID, device, device_reading


class Bench:
    """A pipeline and its clock; the GPU's samples never go stale here."""

    def __init__(self) -> None:
        self.clock = ManualClock(START_UNIX_NS)
        self.pipeline = Pipeline(self.clock, 0.5)

    def view(self, *readings: Reading, used_bytes: int | None = 720) -> DeviceView:
        """The GPU after these readings and a sample of this moment."""
        at_s = self.clock.monotonic()
        for reading in (*readings, device_reading(device(used_bytes), at_s=at_s)):
            self.pipeline.offer(reading)
        return self.pipeline.tick().devices[0]


def details(at_s: float, **fields: Any) -> DetailReading:
    return DetailReading(
        ts_unix_ns=START_UNIX_NS + round(at_s * 1e9),
        interval_s=5.0,
        gpus={UUID: DeviceDetail(**fields)},
    )


def test_details_stay_for_three_intervals() -> None:
    bench = Bench()
    assert bench.view().detail is None
    bar1 = DeviceDetail(bar1_total_bytes=2000, bar1_used_bytes=17)
    assert bench.view(details(0.0, bar1_total_bytes=2000, bar1_used_bytes=17)).detail == bar1
    bench.clock.advance(15.0)
    assert bench.view().detail == bar1
    bench.clock.advance(0.1)
    assert bench.view().detail is None


def test_counters_go_on_where_a_new_driver_starts_from_zero() -> None:
    bench = Bench()
    energies = []
    for at_s, raw in ((0.0, 100.0), (5.0, 140.0), (10.0, 30.0)):
        reading = details(at_s, counters={"energy_joules": raw})
        detail = bench.view(reading).detail
        assert detail is not None
        energies.append(detail.counters["energy_joules"])
        bench.clock.advance(5.0)
    assert energies == [100.0, 140.0, 170.0]


def test_a_counter_that_cannot_be_read_is_absent() -> None:
    bench = Bench()
    bench.view(details(0.0, counters={"energy_joules": 100.0, "pcie_replays": 3}))
    bench.clock.advance(5.0)
    detail = bench.view(details(5.0, counters={"pcie_replays": 4})).detail
    assert detail is not None
    assert detail.counters == {"pcie_replays": 4}


def test_a_lost_gpu_has_no_details_but_its_xid_errors() -> None:
    bench = Bench()
    xid = XidReading(ts_unix_ns=START_UNIX_NS, events=(XidEvent(uuid=UUID, xid=79),))
    view = bench.view(details(0.0, bar1_used_bytes=17), xid, used_bytes=None)
    assert not view.is_up
    assert view.detail is None
    assert view.xid_errors == {"79": 1}


def test_repeated_xid_errors_are_counted_each() -> None:
    bench = Bench()
    events = tuple(XidEvent(uuid=UUID, xid=xid) for xid in (48, 63, 48))
    bench.view(XidReading(ts_unix_ns=START_UNIX_NS, events=events))
    view = bench.view(XidReading(ts_unix_ns=START_UNIX_NS, events=events[:1]))
    assert view.xid_errors == {"48": 3, "63": 1}


def test_a_profile_stays_for_three_of_its_intervals() -> None:
    bench = Bench()
    profile = DeviceProfile(dram_bandwidth_utilization_ratio=0.88)
    reading = ProfileReading(ts_unix_ns=START_UNIX_NS, interval_s=1.0, gpus={UUID: profile})
    assert bench.view(reading).profile == profile
    bench.clock.advance(3.1)
    assert bench.view().profile is None


def test_capabilities_of_all_lanes_stand_together() -> None:
    pipeline = Pipeline(ManualClock(START_UNIX_NS), 0.5)
    pipeline.offer(
        DetailReading(
            ts_unix_ns=START_UNIX_NS, interval_s=5.0, gpus={}, capabilities={"energy": False}
        )
    )
    pipeline.offer(XidReading(ts_unix_ns=START_UNIX_NS, capabilities={"xid_events": True}))
    assert pipeline.tick().capabilities == {"energy": False, "xid_events": True}


LANE_READINGS: list[LaneReading] = [
    details(1.0, bar1_used_bytes=17, remapped_rows={"pending": 1}, counters={"pcie_replays": 4}),
    ProfileReading(
        ts_unix_ns=START_UNIX_NS,
        interval_s=1.0,
        gpus={UUID: DeviceProfile(sm_occupancy_ratio=0.25)},
    ),
    XidReading(ts_unix_ns=START_UNIX_NS, events=(XidEvent(uuid=UUID, xid=48),)),
]


@pytest.mark.parametrize("reading", LANE_READINGS, ids=lambda reading: type(reading).__name__)
def test_a_recording_keeps_readings_of_lanes(reading: LaneReading) -> None:
    assert decode_line(encode_line(reading)) == reading


def test_counters_of_details_go_on_over_laps() -> None:
    header = RecordingHeader(
        v=1, name="x", started_unix_ns=START_UNIX_NS, product_version="0", interval_s=0.5
    )
    events = (
        Event(0.0, details(0.0, counters={"energy_joules": 100.0})),
        Event(0.0, device_reading(device(720))),
        Event(5.0, details(5.0, counters={"energy_joules": 140.0})),
        Event(5.0, device_reading(device(720), at_s=5.0)),
    )
    recording = Recording(header, events)
    assert [
        (reading.ts_unix_ns - START_UNIX_NS, reading.gpus[UUID].counters["energy_joules"])
        for event in recording.events_until(10.9, START_UNIX_NS)
        if isinstance(reading := event.reading, DetailReading)
    ] == [(0, 100.0), (5_000_000_000, 140.0), (5_500_000_000, 140.0), (10_500_000_000, 180.0)]
