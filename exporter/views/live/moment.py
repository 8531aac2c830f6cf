"""One tick as viewers are shown it, and what of it is new to those who saw the one before."""

from msgspec import Struct

from exporter.records.view import View
from exporter.views.live.rows import Layout
from exporter.views.live.state import Mark, State, Value, changes, mark, state

STATE_INTERVAL_S = 1.0
MAX_MARKS = 100


class Moment(Struct, frozen=True, kw_only=True):
    """A tick by its number; `after`: the tick that `state_changes` and `new_marks` refer to.

    Only the newest 100 conflicts are marks. `state_at_s`: the View's time when `state` was taken.
    """

    tick: int
    after: int | None
    unix_ms: int
    replay: str | None
    layout: Layout
    state: State
    state_at_s: float
    state_changes: dict[str, Value | None]
    marks: dict[int, Mark]
    new_marks: tuple[Mark, ...]


def moment(tick: int, view: View, layout: Layout, before: Moment | None) -> Moment:
    """The moment of this tick; `before` is the one that was shown last, if any."""
    marks = {conflict.id: mark(conflict) for conflict in view.conflicts[-MAX_MARKS:]}
    if before is not None and before.layout != layout:
        before = None
    at_s = view.published_monotonic_s
    if before is None:
        shown = state(view, layout)
        changed: dict[str, Value | None] = {**shown}
        new_marks = tuple(marks.values())
    elif at_s - before.state_at_s > STATE_INTERVAL_S - view.interval_s / 2:
        shown = state(view, layout)
        changed = changes(shown, before.state)
        new_marks = _new(marks, before.marks)
    else:
        at_s, shown, changed = before.state_at_s, before.state, {}
        new_marks = _new(marks, before.marks)
    return Moment(
        tick=tick,
        after=before.tick if before else None,
        unix_ms=view.ts_unix_ns // 1_000_000,
        replay=view.replay,
        layout=layout,
        state=shown,
        state_at_s=at_s,
        state_changes=changed,
        marks=marks,
        new_marks=new_marks,
    )


def _new(marks: dict[int, Mark], before: dict[int, Mark]) -> tuple[Mark, ...]:
    return tuple(mark for number, mark in marks.items() if before.get(number) != mark)
