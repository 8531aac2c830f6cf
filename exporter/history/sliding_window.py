"""The samples of the last 60 s, exactly, in fixed memory."""

from array import array
from collections.abc import Sequence

from exporter.records.view import Window

SPAN_S = 60.0


class SlidingWindow:
    """Ring of timed samples; figures are over those at most `span_s` old.

    When more than `capacity` samples fall into the span, the oldest are forgotten early.
    """

    def __init__(self, capacity: int, span_s: float = SPAN_S) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1 sample, got {capacity}")
        self._capacity = capacity
        self._span_s = span_s
        self._times_s = array("d")
        self._values = array("d")

    def add(self, at_s: float, value: float) -> None:
        """Remember a sample taken at `at_s` (monotonic seconds, not before the previous one)."""
        self._times_s.append(at_s)
        self._values.append(value)
        self._forget(at_s)

    def summary(self, now_s: float) -> Window | None:
        """Minimum, maximum and mean at `now_s`; None without samples."""
        self._forget(now_s)
        if not self._values:
            return None
        values = self._values
        return Window(min=min(values), max=max(values), mean=sum(values) / len(values))

    def growth(self, now_s: float) -> float | None:
        """Newest − oldest value within the span; None with fewer than two samples."""
        self._forget(now_s)
        return self._values[-1] - self._values[0] if len(self._values) > 1 else None

    def samples(self, now_s: float) -> tuple[Sequence[float], Sequence[float]]:
        """Times and values within the span, oldest first; to be read at once, not kept."""
        self._forget(now_s)
        return self._times_s, self._values

    def _forget(self, now_s: float) -> None:
        horizon_s = now_s - self._span_s
        expired = max(0, len(self._times_s) - self._capacity)
        while expired < len(self._times_s) and self._times_s[expired] < horizon_s:
            expired += 1
        if expired:
            del self._times_s[:expired]
            del self._values[:expired]
