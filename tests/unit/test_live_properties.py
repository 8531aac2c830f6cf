"""Whatever happens, a viewer that applies deltas shows what a full event would show it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from exporter.clock import ManualClock
from exporter.records.conflict import Conflict
from exporter.records.trace import Blocks
from exporter.records.view import EngineCounters, View
from exporter.views.live.rows import METRICS
from exporter.web.live_feed import WINDOWS, LiveFeed
from exporter.web.live_position import Position, Stream, position_of
from tests.live_client import Shown, parsed
from tests.live_views import START_S, engine, live_view
from tests.views import co_tenant, gpu_view

ratios = st.none() | st.sampled_from((0.0, 0.25, 0.5004, 1.0))


@st.composite
def views(draw: st.DrawFn) -> View:
    """A View of up to four GPUs in any order, some without figures, and up to two engines."""
    gpus = draw(st.lists(st.integers(0, 3), max_size=4, unique=True))
    engines, placed = [], {}
    for replica in draw(st.sampled_from(((), ("a",), ("a", "b")))):
        placed[replica] = tuple(draw(st.lists(st.sampled_from(gpus), max_size=2))) if gpus else ()
        kv = engine("").kv
        if kv is not None and draw(st.booleans()):
            kv = replace(kv, blocks=Blocks(total=11, num_free=draw(st.integers(0, 10))))
        counters = EngineCounters(preemptions=draw(st.none() | st.integers(0, 5)))
        engines.append(engine(replica, draw(ratios), kv=kv, counters=counters))
    devices = []
    for index in gpus:
        device = replace(gpu_view(index), pressure_ratio=draw(ratios))
        is_lost = draw(st.integers(0, 4)) == 0
        devices.append(replace(device, sample=None, ledger=None) if is_lost else device)
    view = live_view(placed=placed, engines=tuple(engines))
    return replace(view, devices=tuple(devices))


class Step(NamedTuple):
    """One tick: how long after the last, which View, conflicts that began, who looks at it."""

    after_s: float
    which: int
    begun: int
    awake: list[bool]


steps = st.builds(
    Step,
    st.sampled_from((0.25, 0.5, 0.5, 0.5, 0.55, 1.0, 3.0, 59.0, 61.0)),
    st.integers(0, 2),
    st.sampled_from((0, 0, 1, 60)),
    st.lists(st.booleans(), min_size=6, max_size=6),
)


def conflicts(total: int, used_mib: int) -> tuple[Conflict, ...]:
    """The newest 100 of them; the last one grows."""
    numbers = range(max(0, total - 100) + 1, total + 1)
    return tuple(
        replace(co_tenant(), id=number, used_bytes=used_mib << 20 if number == total else 0)
        for number in numbers
    )


@dataclass
class Follower:
    """A viewer without a connection."""

    stream: Stream
    shown: Shown
    position: Position | None = None

    def look(self, feed: LiveFeed) -> str:
        made = feed.event(self.stream, self.position)
        if made is None:
            return ""
        event = parsed(made[0])
        assert event is not None
        self.shown.apply(event)
        self.position = position_of(event.id or "")
        assert self.position == made[1]
        return event.name


def followers() -> Iterator[Follower]:
    for metric in (METRICS.index("device_pressure"), METRICS.index("kv_usage")):
        for window in range(len(WINDOWS)):
            yield Follower(Stream(metric, window), Shown())


@settings(max_examples=300, deadline=None)
@given(
    ticks=st.lists(steps, min_size=1, max_size=12),
    seen=st.lists(views(), min_size=3, max_size=3),
)
def test_deltas_show_what_a_full_event_shows(ticks: list[Step], seen: list[View]) -> None:
    """Views of one or another layout, stalls, viewers that sleep through ticks and come back."""
    feed, at_s, total = LiveFeed(0.5, ManualClock(0)), START_S, 0
    looking = list(followers())
    for step in ticks:
        at_s, total = at_s + step.after_s, total + step.begun
        found = conflicts(total, round(at_s))
        feed.observe(replace(seen[step.which], published_monotonic_s=at_s, conflicts=found))
        for follower, is_awake in zip(looking, step.awake, strict=True):
            if is_awake:
                follower.look(feed)
                newcomer = Follower(follower.stream, Shown())
                assert newcomer.look(feed) == "full"
                assert follower.shown == newcomer.shown
                follower.look(feed)
                assert follower.shown == newcomer.shown


@pytest.mark.parametrize("tick_s", [0.5, 0.1])
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_with_steady_rows_only_the_first_event_is_full(tick_s: float, data: st.DataObject) -> None:
    feed = LiveFeed(tick_s, ManualClock(0))
    follower = Follower(Stream(METRICS.index("kv_usage"), 0), Shown())
    names = []
    for number in range(10):
        view = live_view(at_s=START_S + number * tick_s)
        feed.observe(replace(view, engines=(engine("blue", data.draw(ratios)),)))
        names.append(follower.look(feed))
    assert names == ["full"] + ["delta"] * 9
