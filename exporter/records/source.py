"""What a source hands over and how its health is told."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from exporter.records.device import DeviceReading
from exporter.records.device_detail import LaneReading
from exporter.records.pods import PodReading
from exporter.records.trace import TraceReading

Reading = DeviceReading | LaneReading | PodReading | TraceReading


class Source(Protocol):
    """Something that can be read again and again by one thread of its own.

    `name`: value of the label `source`. `interval_s`: how often to read. `errors`: partial failures
    so far by reason (one GPU lost, one file unreadable), cumulative; a read that failed as a whole
    raises instead.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def interval_s(self) -> float: ...  # noqa: D102
    @property
    def errors(self) -> Mapping[str, int]: ...  # noqa: D102

    def read(self) -> Reading | None:
        """Read once, at once. None: nothing new, and that is fine.

        Raises: SourceUnavailable: nothing could be read.
        """
        ...

    def close(self) -> None:
        """Let go of handles and files; may be called from the reading thread only."""
        ...


class Histogram(Struct, frozen=True):
    """Samples so far: `counts[i]` of them ≤ `bounds[i]`, not cumulative; one more beyond the last.

    len(counts) = len(bounds) + 1; `total` is the sum of the samples.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float


class SourceHealth(Struct, frozen=True, kw_only=True):
    """Health of one source; `last_success_unix_s` is None before the first success."""

    name: str
    is_up: bool
    last_success_unix_s: float | None
    errors: dict[str, int]
    missed_samples: int
    durations: Histogram
