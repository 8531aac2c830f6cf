"""Figures that several origins tell (plugin, vLLM's /metrics, vLLM's log): whose is taken.

Times are seconds of the monotonic clock at which a record was taken.
"""

from math import inf
from typing import get_args

from exporter.history.counter import ResetSafeCounter
from exporter.history.identities import LIVE_INTERVALS
from exporter.records.trace import Origin, Record

ORIGINS: tuple[Origin, ...] = get_args(Origin)
"""The best one first."""


class OriginChoice:
    """Stays with one origin of a figure until a better one tells it or that one falls silent.

    Silent is who has not told the figure for three of its intervals.
    """

    def __init__(self) -> None:
        self.origin: Origin | None = None
        self._told_s = -inf
        self._interval_s = 0.0

    def take(self, record: Record, seen_s: float) -> bool:
        """Whether the figure in `record` is to be used; call it only when it is told there."""
        if self.origin not in (None, record.origin) and not self._yields(record, seen_s):
            return False
        self.origin = record.origin
        self._told_s = max(self._told_s, seen_s)
        self._interval_s = record.interval_s
        return True

    def is_silent(self, at_s: float) -> bool:
        """Whether nobody's figure is to be shown at `at_s`."""
        return at_s - self._told_s > LIVE_INTERVALS * self._interval_s

    def _yields(self, record: Record, seen_s: float) -> bool:
        if self.is_silent(seen_s):
            return True
        is_better = ORIGINS.index(record.origin) < ORIGINS.index(self.origin or record.origin)
        return is_better and self._told_s - seen_s <= LIVE_INTERVALS * record.interval_s


class OriginCounter:
    """A cumulative count that several origins tell, each from its own start: ours never jumps.

    The total grows by what the chosen origin's count grows. A change of origin adds nothing: what
    the new one has counted so far was the old one's to tell, or nobody's.
    """

    def __init__(self) -> None:
        self.choice = OriginChoice()
        self._counters: dict[Origin, ResetSafeCounter] = {}
        self._offset = 0.0

    @property
    def total(self) -> float | None:
        """The count so far; None when it was never told."""
        if self.choice.origin is None:
            return None
        return self._offset + (self._counters[self.choice.origin].total or 0)

    def shown(self, now_s: float) -> float | None:
        """The total, or None once its origin has fallen silent."""
        return None if self.choice.is_silent(now_s) else self.total

    def update(self, raw: float | None, record: Record, seen_s: float) -> bool:
        """Take the count as `record` tells it; None means not told, and changes nothing.

        Returns whether this origin's count went back, which is a restart that kept its pid.
        """
        if raw is None:
            return False
        origin, total = self.choice.origin, self.total
        counter = self._counters.setdefault(record.origin, ResetSafeCounter())
        went_back = counter.update(raw, record.writer)
        if self.choice.take(record, seen_s) and origin not in (None, record.origin):
            self._offset = (total or 0) - (counter.total or 0)
        return went_back
