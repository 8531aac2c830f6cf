"""Where time comes from: the machine's clocks, or a clock that only moves when told to."""

import time
from typing import Protocol


class Clock(Protocol):
    """The two times that this program needs; everything that measures time is handed one."""

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean anything."""
        ...

    def unix_ns(self) -> int:
        """Nanoseconds since 1970-01-01 UTC; can jump when the machine's clock is set."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return time.monotonic()

    def unix_ns(self) -> int:
        """See `Clock.unix_ns`."""
        return time.time_ns()


class ManualClock:
    """A clock that stands still until it is moved: for tests and for a frozen replay."""

    def __init__(self, unix_ns: int, monotonic_s: float = 0.0) -> None:
        self._unix_ns = unix_ns
        self._monotonic_s = monotonic_s

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return self._monotonic_s

    def unix_ns(self) -> int:
        """See `Clock.unix_ns`."""
        return self._unix_ns

    def advance(self, seconds: float) -> None:
        """Move both times forward by `seconds` (≥ 0)."""
        self._monotonic_s += seconds
        self._unix_ns += round(seconds * 1e9)
