"""What the live page shows beside the heatmap, worked out by hand."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from exporter.records.trace import Blocks
from exporter.views.live import frames, rows
from exporter.views.live.frames import Delta, Idle
from exporter.views.live.moment import moment
from exporter.views.live.state import State, changes, complete, mark, state
from tests.live_client import MISSING, codes_of, parsed
from tests.live_views import START_S, engine, live_view
from tests.views import bare_view, co_tenant, engine_view, gpu_view, make_view

EMPTY = Delta(column=1, unix_ms=2, cells="", preempted=(), state={}, marks=())


def codes(of: State, key: str) -> list[int]:
    value = of[key]
    assert isinstance(value, str)
    return codes_of(value)


def test_ledgers_are_shares_of_the_whole_and_blocks_are_counted() -> None:
    """A GPU of 1000 bytes; 40 usable blocks: 10 active, 6 cached, 24 free; 17 of 42 pages."""
    view = make_view()
    found = state(view, rows.layout(view))
    assert codes(found, "ledger.free") == [3500]
    assert codes(found, "ledger.unattributed") == [1990]
    assert codes(found, "ledger.engine_unsplit") == [2000]
    assert "ledger.weights" not in found
    assert "kv.unsplit" not in found
    assert codes(found, "contiguity") == [4048]
    plain = {key: value for key, value in found.items() if not isinstance(value, str)}
    assert plain == {
        "up": (True,),
        "memory_total_mib": (0,),
        "engine_up": (True,),
        "kv_blocks": (40,),
        "kv.active": (10,),
        "kv.cached": (6,),
        "kv.free": (24,),
        "preemptions": (8,),
        "running": (5,),
        "waiting": (14,),
    }


def test_cached_and_free_blocks_that_are_not_told_apart_are_unsplit() -> None:
    kv = engine_view().kv
    assert kv is not None
    kv = replace(kv, blocks=Blocks(total=41, num_free=30))
    view = live_view(engines=(engine("blue", kv=kv),))
    found = state(view, rows.layout(view))
    assert found["kv.unsplit"] == (30,)
    assert not {"kv.cached", "kv.free"} & found.keys()


def test_an_owner_of_one_gpu_is_unknown_on_the_others() -> None:
    down = replace(gpu_view(1), is_up=False, sample=None, ledger=None)
    view = replace(live_view(gpus=(0, 1)), devices=(gpu_view(0), down))
    found = state(view, rows.layout(view))
    assert codes(found, "ledger.free") == [3500, MISSING]
    assert found["up"] == (True, False)
    assert found["memory_total_mib"] == (0, None)


def test_nothing_known_is_no_key() -> None:
    view = bare_view()
    assert state(view, rows.layout(view)) == {"up": (False, None), "engine_up": (False,)}


def test_changes_name_what_is_new_and_what_is_gone() -> None:
    old, new = {"up": (True,), "running": (1,), "waiting": (2,)}, {"up": (True,), "running": (3,)}
    assert changes({**new}, {**old}) == {"running": (3,), "waiting": None}
    assert complete({"up": (True,)})["waiting"] is None
    assert complete({"up": (True,)})["up"] == (True,)
    assert state(make_view(), rows.layout(make_view())).keys() <= complete({}).keys()


def test_a_mark_is_a_conflict_without_its_command_lines() -> None:
    marked = mark(replace(co_tenant(), used_bytes=6 << 30))
    assert msgspec.to_builtins(marked) == {
        "id": 1,
        "kind": "co_tenant",
        "unix_ms": 1_795_960_056_000,
        "ended_unix_ms": None,
        "uuid": co_tenant().uuid,
        "pid": 4101,
        "process": "worker-1",
        "used_mib": 6144,
    }
    unknown = mark(replace(co_tenant(), pid=None, used_bytes=None, ended_unix_ns=7_000_000))
    assert (unknown.process, unknown.used_mib, unknown.ended_unix_ms) == (None, None, 7)


def test_state_is_renewed_once_a_second_and_marks_at_once() -> None:
    first, second = co_tenant(), replace(co_tenant(), id=2)
    busy: dict[str, Any] = {"engines": (engine("blue", 0.5),), "conflicts": (first, second)}
    view = live_view(conflicts=(first,))
    layout = rows.layout(view)
    at_0 = moment(1, view, layout, None)
    at_half = moment(2, live_view(at_s=START_S + 0.5, **busy), layout, at_0)
    at_1 = moment(3, live_view(at_s=START_S + 1.0, **busy), layout, at_half)
    assert (at_0.after, at_half.after, at_1.after) == (None, 1, 2)
    assert at_half.state_changes == {}
    assert [mark.id for mark in at_half.new_marks] == [2]
    assert at_1.state_changes == {"kv.active": (20,), "kv.free": (14,)}
    assert at_1.new_marks == ()


def test_with_another_layout_nothing_is_known_to_be_the_same() -> None:
    view = live_view()
    wider = live_view(gpus=(0, 1), at_s=START_S + 0.5)
    before = moment(1, view, rows.layout(view), None)
    after = moment(2, wider, rows.layout(wider), before)
    assert after.after is None
    assert after.state_changes == after.state
    assert after.state["up"] == (True, True)


@pytest.mark.parametrize(
    "name", ["</script><img src=x onerror=alert(1)>", "a\nevent: full\n\ndata: {}", "\x00\r", "é"]
)
def test_a_name_never_leaves_its_string(name: str) -> None:
    marked = mark(replace(co_tenant(), uuid=name))
    text = frames.event(replace(EMPTY, marks=(marked,)), "id-1")
    assert text.count(b"\n") == 4
    assert text.endswith(b"\n\n")
    assert b"\r" not in text
    event = parsed(text)
    assert event is not None
    assert (event.name, event.id, event.data["marks"][0]["uuid"]) == ("delta", "id-1", name)


def test_an_idle_event_has_no_id() -> None:
    assert frames.event(Idle(age_s=1.5, is_stale=False)) == (
        b'event: idle\ndata: {"age_s":1.5,"is_stale":false}\n\n'
    )
