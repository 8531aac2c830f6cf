"""Plays a recording at its own pace, over and over; knows nothing of what the readings mean.

Whatever a reading says about processes comes from the recording alone: a recorded pid means nothing
on this machine and is never looked up here.
"""

from collections.abc import Mapping
from itertools import count

from exporter.clock import Clock
from exporter.records.source import Reading
from exporter.sources.recording import Recording

LONGEST_POLL_S = 0.05
POLLS_PER_INTERVAL = 10
HELD_UP_AFTER_S = 2.0
"""A play further behind than this (a suspended machine, a clock set) goes on from where it was."""


class ReplaySource:
    """A `Source` whose readings become due one after the other.

    A read gives one reading, so the trace records and the device reading of one tick come with two
    reads. Each carries the time at which it was due, however late it comes.
    """

    name = "replay"

    def __init__(self, recording: Recording, clock: Clock) -> None:
        self.interval_s = min(LONGEST_POLL_S, recording.header.interval_s / POLLS_PER_INTERVAL)
        self.errors: Mapping[str, int] = {}
        self._recording = recording
        self._clock = clock
        self._start_s = clock.monotonic()
        self._start_unix_ns = clock.unix_ns()
        self._slip_ns = 0
        self._order = ((lap, event) for lap in count() for event in recording.events)
        self._next = next(self._order)

    def read(self) -> Reading | None:
        """The next reading that is due, re-based to the present; None when none is due yet."""
        lap, event = self._next
        offset_s = lap * self._recording.duration_s + event.at_s
        now_s = self._clock.monotonic()
        if now_s < self._start_s + offset_s:
            return None
        due_unix_ns = self._start_unix_ns + self._slip_ns + round(offset_s * 1e9)
        behind_ns = self._clock.unix_ns() - due_unix_ns
        if abs(behind_ns) > HELD_UP_AFTER_S * 1e9:
            self._slip_ns += behind_ns
            self._start_s = now_s - offset_s
        self._next = next(self._order)
        return self._recording.played(event, lap, self._start_unix_ns, self._slip_ns)

    def close(self) -> None:
        """Nothing is held open: the recording is in memory."""
