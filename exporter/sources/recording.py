"""A recording in memory: its readings on one time line, lap after lap.

Reads the file and re-bases what it plays; knows no clock and keeps no pace.
"""

import gzip
import logging
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from exporter.errors import RecordingError
from exporter.records.codec import RecordingHeader, RecordingLine, UnknownType, decode_line
from exporter.records.device import DeviceReading
from exporter.records.device_detail import DetailReading, LaneReading
from exporter.records.pods import PodReading
from exporter.records.source import Reading
from exporter.records.trace import EngineRecord, TraceReading, TraceRecord
from exporter.sources.lap_counters import (
    continued,
    continued_details,
    growth,
    growth_of_details,
)

MAX_BYTES = 64 * 2**20
"""Largest recording, uncompressed: it is held in memory as a whole."""

log = logging.getLogger(__name__)


class Event(Struct, frozen=True):
    """A reading, and when it is played in seconds since the play began."""

    at_s: float
    reading: Reading


class Recording:
    """A header and the events of one lap, in order.

    Trace records, pods and details are played with the device reading that follows them in the
    file, just before it; a device reading whose time lies before its predecessor's (a clock was
    set) right after that.
    `begin_unix_ns`: when the first device reading was taken. `duration_s` is the length of a lap:
    until the last event, and one interval more, so that the step from the end to the start is as
    long as any other.
    """

    def __init__(self, header: RecordingHeader, events: tuple[Event, ...]) -> None:
        readings = [event.reading for event in events]
        self.header = header
        self.events = events
        self.duration_s = events[-1].at_s + header.interval_s
        self.begin_unix_ns = next(
            reading.ts_unix_ns for reading in readings if isinstance(reading, DeviceReading)
        )
        self._growth = growth(
            record
            for reading in readings
            if isinstance(reading, TraceReading)
            for record in reading.records
        )
        self._details_growth = growth_of_details(
            reading for reading in readings if isinstance(reading, DetailReading)
        )

    @classmethod
    def load(cls, path: Path) -> "Recording":
        """Read a ``.jsonl`` or ``.jsonl.gz`` file as a whole.

        Trace records after the last device reading are left out: their tick was never finished. So
        is a last line without its newline: whoever recorded was cut off. So are lines of types that
        a later version has added, with a line in the log.

        Raises: RecordingError: the file cannot be read, is longer than `MAX_BYTES`, does not start
        with its header, holds no device reading, or has a bad line, which is named by its number.
        """
        unknown: Counter[str] = Counter()
        lines = [
            _line(path, number, raw, unknown)
            for number, raw in enumerate(_content(path).split(b"\n")[:-1], 1)
        ]
        if not lines:
            raise RecordingError(f"{path}: the recording is empty")
        if not isinstance(lines[0], RecordingHeader):
            raise RecordingError(f"{path}: line 1: a recording starts with its header")
        events = tuple(_events(path, lines[1:]))
        if not events:
            raise RecordingError(f"{path}: the recording holds no device reading")
        if unknown:
            log.warning(
                "%s: left out %d lines of types that this exporter does not know (%s): exporter %s"
                " recorded them",
                path,
                unknown.total(),
                ", ".join(sorted(unknown)),
                lines[0].product_version,
            )
        return cls(lines[0], events)

    def events_until(self, seconds: float, start_unix_ns: int) -> Iterator[Event]:
        """What a play of the first `seconds` gives, unpaced; an event right at the end is in.

        Times are re-based so that the play begins at `start_unix_ns`; beyond `duration_s` the
        recording starts again, as a paced play does.
        """
        for lap in count():
            for event in self.events:
                at_s = lap * self.duration_s + event.at_s
                if at_s > seconds:
                    return
                yield Event(at_s, self.played(event, lap, start_unix_ns))

    def played(self, event: Event, lap: int, start_unix_ns: int, slip_ns: int = 0) -> Reading:
        """The reading of `event` as it is played in a lap (the first is 0).

        Times are re-based so that the play began at `start_unix_ns` and was held up for `slip_ns`
        since. Cumulative counters go on: each lap adds what the recording added. Processes remain
        the same over laps: neither pid nor start time moves.
        """
        offset_ns = start_unix_ns - self.begin_unix_ns
        shift_ns = offset_ns + slip_ns + round(lap * self.duration_s * 1e9)
        reading = event.reading
        if isinstance(reading, DetailReading):
            reading = continued_details(reading, self._details_growth, lap)
        if not isinstance(reading, TraceReading):
            return replace(reading, ts_unix_ns=reading.ts_unix_ns + shift_ns)
        records = (continued(record, self._growth, lap) for record in reading.records)
        return replace(
            reading, records=tuple(_moved(record, shift_ns, offset_ns) for record in records)
        )


def _content(path: Path) -> bytes:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as exc:
        raise RecordingError(f"{path}: {exc.strerror or exc}") from exc
    except (EOFError, zlib.error) as exc:
        raise RecordingError(f"{path}: {exc}") from exc
    if len(content) > MAX_BYTES:
        raise RecordingError(f"{path}: the recording is longer than {MAX_BYTES} bytes")
    return content


def _line(path: Path, number: int, raw: bytes, unknown: Counter[str]) -> RecordingLine | None:
    """The line; None when its type is of a later version, which is counted in `unknown`."""
    try:
        return decode_line(raw)
    except UnknownType as exc:
        unknown[str(exc)] += 1
        return None
    except ValueError as exc:
        raise RecordingError(f"{path}: line {number}: {exc}") from exc


def _events(path: Path, lines: Iterable[RecordingLine | None]) -> Iterator[Event]:
    begin_ns: int | None = None
    at_s = 0.0
    records: list[TraceRecord] = []
    others: list[LaneReading | PodReading] = []
    for number, line in enumerate(lines, start=2):
        if line is None:
            continue
        if isinstance(line, RecordingHeader):
            raise RecordingError(f"{path}: line {number}: a second header")
        if isinstance(line, LaneReading | PodReading):
            others.append(line)
            continue
        if not isinstance(line, DeviceReading):
            records.append(line)
            continue
        if begin_ns is None:
            begin_ns = line.ts_unix_ns
        at_s = max(at_s, (line.ts_unix_ns - begin_ns) / 1e9)
        if records:
            trace = TraceReading(records=tuple(records), lines={}, dropped_bytes=0, files=0)
            yield Event(at_s, trace)
            records.clear()
        for reading in others:
            yield Event(at_s, reading)
        others.clear()
        yield Event(at_s, line)


def _moved(record: TraceRecord, shift_ns: int, start_shift_ns: int) -> TraceRecord:
    record = replace(record, ts_unix_ns=record.ts_unix_ns + shift_ns)
    if isinstance(record, EngineRecord) and record.start_unix_ns is not None:
        record = replace(record, start_unix_ns=record.start_unix_ns + start_shift_ns)
    return record
