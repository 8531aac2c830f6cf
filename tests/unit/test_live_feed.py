"""The feed's events by hand: full, delta, what an id is good for, and what is made only once."""

import pytest
from msgspec.structs import replace

from exporter.clock import ManualClock
from exporter.records.view import EngineCounters
from exporter.views.live.rows import METRICS
from exporter.web.live_feed import WINDOWS, LiveFeed
from exporter.web.live_position import Position, Stream, position_of
from tests.live_client import MISSING, Event, Shown, parsed
from tests.live_views import START_S, engine, live_view
from tests.views import co_tenant

USAGE = Stream(METRICS.index("kv_usage"), WINDOWS.index("60s"))
LONG = Stream(METRICS.index("kv_usage"), WINDOWS.index("15m"))


def make_feed() -> LiveFeed:
    return LiveFeed(0.5, ManualClock(0, START_S))


def tick(feed: LiveFeed, number: int, usage: float = 0.25, **changes: object) -> None:
    """The tick `number` half seconds after the start."""
    engines = (engine("blue", usage),)
    feed.observe(live_view(at_s=START_S + number / 2, **{"engines": engines, **changes}))  # type: ignore[arg-type]


def taken(feed: LiveFeed, after: Position | None, stream: Stream = USAGE) -> tuple[Event, Position]:
    made = feed.event(stream, after)
    assert made is not None
    event = parsed(made[0])
    assert event is not None
    assert event.id == str(made[1])
    return event, made[1]


def test_before_the_first_tick_there_is_no_event_and_no_age() -> None:
    feed = make_feed()
    assert feed.event(USAGE, None) is None
    assert feed.idle() == b'event: idle\ndata: {"age_s":null,"is_stale":false}\n\n'


def test_the_first_event_is_full() -> None:
    feed = make_feed()
    tick(feed, 0, 0.5)
    tick(feed, 1, 0.75)
    event, _ = taken(feed, None)
    shown = Shown()
    shown.apply(event)
    assert event.name == "full"
    assert shown.head == {
        "protocol": 1,
        "version": "0.1.0",
        "metric": "kv_usage",
        "window": "60s",
        "replay": "tp4",
        "interval_s": 0.5,
        "column_s": 0.5,
        "columns": 120,
    }
    assert (shown.column, shown.unix_ms) == (201, 1_795_960_065_500)
    assert shown.cells == [[MISSING]] * 118 + [[5000], [7500]]
    assert [row["device"] for row in shown.layout["rows"]] == ["cuda:0"]
    assert shown.layout["engines"][0]["replica"] == "blue"
    assert shown.state["kv.active"] == [30]
    assert shown.state["preemptions"] == [8]


def test_then_comes_one_delta_a_tick_also_when_nothing_changed() -> None:
    feed = make_feed()
    tick(feed, 0)
    _, position = taken(feed, None)
    assert feed.event(USAGE, position) is None
    tick(feed, 1)
    event, position = taken(feed, position)
    assert (event.name, event.data) == (
        "delta",
        {
            "column": 201,
            "unix_ms": 1_795_960_065_500,
            "cells": "xAk=",  # 2500
            "preempted": [],
            "state": {},
            "marks": [],
        },
    )
    tick(feed, 2, 0.5, conflicts=(co_tenant(),))
    event, _ = taken(feed, position)
    assert event.data["state"] == {"kv.active": [20], "kv.free": [14]}
    assert [mark["id"] for mark in event.data["marks"]] == [1]


def test_preemptions_are_counted_where_they_happened() -> None:
    feed = make_feed()
    for number, total in enumerate((8, 8, 11, 11)):
        counters = EngineCounters(preemptions=total)
        tick(feed, number, engines=(engine("blue", counters=counters),))
    event, _ = taken(feed, None)
    assert event.data["preempted"] == [[202, 0, 3]]


def test_an_engine_that_comes_back_with_its_count_has_preempted_nothing_meanwhile() -> None:
    feed = make_feed()
    tick(feed, 0, engines=(engine("blue", counters=EngineCounters(preemptions=8)),))
    tick(feed, 1, engines=(engine("blue", counters=EngineCounters()),))
    tick(feed, 2, engines=(engine("blue", counters=EngineCounters(preemptions=9)),))
    event, _ = taken(feed, None)
    assert event.data["preempted"] == []


def test_after_a_recent_id_only_the_hole_is_filled_and_the_rest_is_complete() -> None:
    feed = make_feed()
    tick(feed, 0)
    _, position = taken(feed, None)
    for number in range(1, 5):
        tick(feed, number, number / 10)
        taken(feed, None)  # others look on
    event, _ = taken(feed, position_of(str(position)))
    assert event.name == "delta"
    assert event.data["column"] == 204
    assert len(event.data["cells"]) == 16  # base64 of 5 codes: columns 200 to 204
    assert event.data["state"]["kv_blocks"] == [40]
    assert event.data["state"]["kv.unsplit"] is None


@pytest.mark.parametrize(
    ("after_ticks", "name"), [(1, "delta"), (119, "delta"), (120, "full"), (121, "full")]
)
def test_an_id_is_good_for_as_long_as_its_column_is_there(after_ticks: int, name: str) -> None:
    feed = make_feed()
    tick(feed, 0)
    _, position = taken(feed, None)
    for number in range(1, after_ticks + 1):
        tick(feed, number)
    assert taken(feed, position)[0].name == name


@pytest.mark.parametrize(
    "identifier",
    [
        "",
        "x",
        "1.2.3",
        "a.b.c.d.e.f",
        "0.2.0.1.200.1.7",
        "....." * 500,
        "é.2.0.1.200.1",
        "9" * 9000,
    ],
)
def test_what_is_no_id_begins_anew(identifier: str) -> None:
    feed = make_feed()
    tick(feed, 0)
    assert taken(feed, position_of(identifier))[0].name == "full"


def test_an_id_of_another_run_stream_layout_or_future_begins_anew() -> None:
    feed, other = make_feed(), make_feed()
    for each in (feed, other):
        tick(each, 0)
    _, position = taken(feed, None)
    assert taken(other, position)[0].name == "full"
    assert taken(feed, position, LONG)[0].name == "full"
    tick(feed, 1)
    run, metric, window, layout, column, number = str(position).split(".")
    for strange in (
        f"{run}.{metric}.{window}.{layout}.{int(column) + 2}.{number}",
        f"{run}.{metric}.{window}.{layout}.{column}.{int(number) + 2}",
        f"{run}.{metric}.{window}.{int(layout) + 1}.{column}.{number}",
        f"{run}.{metric}.{window}.{layout}.{-int(column)}.{number}",
    ):
        assert taken(feed, position_of(strange))[0].name == "full"
    tick(feed, 2, gpus=(0, 1))
    event, _ = taken(feed, position)
    assert event.name == "full"
    assert [row["device"] for row in event.data["layout"]["rows"]] == ["cuda:0", "cuda:1"]


def test_an_event_is_made_once_for_all_who_need_it() -> None:
    feed = make_feed()
    tick(feed, 0)
    first, again = feed.event(USAGE, None), feed.event(USAGE, None)
    assert first is not None
    assert first is again
    tick(feed, 1)
    delta, same = feed.event(USAGE, first[1]), feed.event(USAGE, first[1])
    assert delta is not None
    assert delta is same
    assert feed.event(LONG, None) is not feed.event(USAGE, None)


def test_who_makes_up_ids_does_not_fill_the_memory() -> None:
    feed = make_feed()
    for number in range(120):
        tick(feed, number)
    _, position = taken(feed, None)
    tick(feed, 120)
    for column in range(202, 320):
        for number in range(-50, 50):
            made_up = Position(position.run, USAGE, position.layout, column, number)
            assert taken(feed, made_up)[0].name == "delta"
    assert len(feed._events) <= 64


def test_ticks_that_came_together_are_one_event() -> None:
    feed = make_feed()
    tick(feed, 0)
    _, position = taken(feed, None)
    tick(feed, 1, 0.5)
    tick(feed, 2, 0.75)
    event, _ = taken(feed, position)
    shown = Shown(layout={"rows": [{}]}, column=200, cells=[[MISSING]] * 119 + [[2500]])
    shown.apply(event)
    assert shown.cells[-3:] == [[2500], [5000], [7500]]


def test_it_is_stale_when_three_ticks_are_overdue_and_never_while_time_stands_still() -> None:
    clock = ManualClock(0, START_S)
    feed = LiveFeed(1.0, clock)
    tick(feed, 0, interval_s=1.0)
    assert b'{"age_s":0.0,"is_stale":false}' in feed.idle()
    clock.advance(3)
    assert b'{"age_s":3.0,"is_stale":false}' in feed.idle()
    clock.advance(0.1)
    assert b'{"age_s":3.1,"is_stale":true}' in feed.idle()


def test_a_short_interval_has_two_seconds_before_it_is_stale() -> None:
    clock = ManualClock(0, START_S)
    feed = LiveFeed(0.1, clock)
    tick(feed, 0, interval_s=0.1)
    clock.advance(2)
    assert b"false" in feed.idle()
    clock.advance(0.2)
    assert b"true" in feed.idle()


def test_ticks_are_told_only_to_who_asked() -> None:
    feed, told = make_feed(), []
    tick(feed, 0)
    feed.on_tick = lambda: told.append("tick")
    tick(feed, 1)
    feed.on_tick = None
    tick(feed, 2)
    assert told == ["tick"]


def test_strange_names_and_figures_do_not_stop_the_ticking() -> None:
    feed = make_feed()
    view = live_view(placed={"\0": (0,), "": ()}, engines=(engine("", 1e308), engine("\0", -1.0)))
    nameless = replace(view.devices[0], facts=replace(view.devices[0].facts, uuid=""))
    feed.observe(replace(view, devices=(nameless,)))
    event, _ = taken(feed, None)
    assert len(event.data["layout"]["rows"]) == 3  # no worker is on a GPU of no name
