"""The live page's events: remembers every tick, and makes an event once for all its viewers."""

import os
import threading
from collections.abc import Callable
from dataclasses import replace

from msgspec.structs import asdict

from exporter.clock import Clock
from exporter.history.column_history import ColumnHistory
from exporter.records.code import code_of
from exporter.records.source import Reading
from exporter.records.view import View
from exporter.views.live import frames, rows
from exporter.views.live.moment import Moment, moment
from exporter.views.live.rows import METRICS, Layout
from exporter.views.live.state import complete
from exporter.web.live_position import Position, Stream

SPANS_S = {"60s": 60.0, "5m": 300.0, "15m": 900.0}
WINDOWS = tuple(SPANS_S)
STALE_AFTER_S = 2.0
STALE_AFTER_INTERVALS = 3
MAX_EVENTS = 64  # of one tick; more are only wanted by who makes up positions

Event = tuple[bytes, Position]


class LiveFeed:
    """One thread calls `observe`, another one everything else.

    Args: interval_s: time between two ticks. clock: the one that stamps Views.
    """

    def __init__(self, interval_s: float, clock: Clock) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._run = os.urandom(4).hex()
        self._preemptions: dict[tuple[str, str], float] = {}
        self._lock = threading.Lock()  # over all that follows
        self._history = ColumnHistory(SPANS_S.values(), interval_s, len(METRICS))
        self._view: View | None = None
        self._layout = Layout(rows=(), engines=(), rows_left_out=0)
        self._layout_number = 0
        self._tick = 0
        self._moment: Moment | None = None
        self._events: dict[tuple[Stream, Position | None], Event] = {}
        self.on_tick: Callable[[], None] | None = None
        """Called on the ticking thread after each tick; None while nobody looks."""

    def observe(self, view: View, _readings: tuple[Reading, ...] = ()) -> None:
        """Remember one View; see `Pipeline.subscribe`."""
        layout = rows.layout(view, self._layout)
        preempted = self._newly_preempted(view)
        samples = {
            key: (*map(code_of, ratios), sum(preempted[index] for index in row.engines))
            for key, row, ratios in zip(
                rows.keys(layout), layout.rows, rows.ratios(view, layout), strict=True
            )
        }
        with self._lock:
            self._interval_s = self._history.interval_s = view.interval_s
            if layout != self._layout:
                self._layout = layout
                self._layout_number += 1
            self._history.observe(view.published_monotonic_s, samples)
            self._view = view
            self._tick += 1
        if (on_tick := self.on_tick) is not None:
            on_tick()

    def event(self, stream: Stream, after: Position | None) -> Event | None:
        """What a viewer at `after` is to be sent, and where it is then; None: nothing is new.

        With `after` None, or of no use any more, the event is a full one.
        """
        with self._lock:
            column = self._history.column(stream.window)
            if self._view is None or column is None:
                return None
            if self._moment is None or self._moment.tick != self._tick:
                self._moment = moment(self._tick, self._view, self._layout, self._moment)
                self._events.clear()
            known = self._known(stream, after, column)
            if known is not None and known.tick == self._tick:
                return None
            if (stream, known) not in self._events:
                if len(self._events) >= MAX_EVENTS:
                    self._events.clear()
                self._events[stream, known] = self._made(self._moment, stream, known, column)
            return self._events[stream, known]

    def idle(self) -> bytes:
        """The event that tells how old the newest sample is."""
        view = self._view
        if view is None:
            return frames.event(frames.Idle(age_s=None, is_stale=False))
        age_s = round(self._clock.monotonic() - view.published_monotonic_s, 1)
        limit_s = max(STALE_AFTER_S, STALE_AFTER_INTERVALS * self._interval_s)
        return frames.event(frames.Idle(age_s=age_s, is_stale=age_s > limit_s))

    def forget_events(self) -> None:
        """Nobody looks any more: keep only what the next viewer needs."""
        with self._lock:
            self._events.clear()

    def _newly_preempted(self, view: View) -> list[int]:
        """Preemptions of each engine since the tick before."""
        before = self._preemptions
        keys = [(engine.replica, engine.engine) for engine in view.engines]
        totals = [engine.counters.preemptions for engine in view.engines]
        self._preemptions = {
            key: total for key, total in zip(keys, totals, strict=True) if total is not None
        }
        return [
            0 if total is None else max(0, round(total - before.get(key, total)))
            for key, total in zip(keys, totals, strict=True)
        ]

    def _known(self, stream: Stream, after: Position | None, column: int) -> Position | None:
        """The position if what came after it can be told; with tick −1 if not exactly so."""
        if after is None or self._moment is None:
            return None
        oldest = column - self._history.windows[stream.window].columns + 1
        is_ours = (after.run, after.stream, after.layout) == (
            self._run,
            stream,
            self._layout_number,
        )
        if not is_ours or not oldest <= after.column <= column or after.tick > self._tick:
            return None
        if after.tick in (self._tick, self._moment.after):
            return after
        return replace(after, tick=-1)

    def _made(self, now: Moment, stream: Stream, known: Position | None, column: int) -> Event:
        position = Position(self._run, stream, self._layout_number, column, self._tick)
        window = self._history.windows[stream.window]
        if known is None:
            since = column - window.columns + 1
        else:  # its column may have grown since, but not when the very next tick began another one
            since = known.column + (column > known.column and self._tick == known.tick + 1)
        keys = rows.keys(now.layout)
        is_next = known is not None and known.tick == now.after
        delta = frames.Delta(
            column=column,
            unix_ms=now.unix_ms,
            cells=frames.cells_text(self._history.cells(stream.window, stream.metric, keys, since)),
            preempted=self._history.events(stream.window, keys, since),
            state=now.state_changes if is_next else complete(now.state),
            marks=now.new_marks if is_next else tuple(now.marks.values()),
        )
        if known is not None:
            return frames.event(delta, str(position)), position
        full = frames.Full(
            metric=METRICS[stream.metric],
            window=WINDOWS[stream.window],
            replay=now.replay,
            interval_s=self._interval_s,
            column_s=window.column_s,
            columns=window.columns,
            layout=now.layout,
            **{**asdict(delta), "state": {**now.state}},
        )
        return frames.event(full, str(position)), position
