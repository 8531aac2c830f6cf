"""How the cumulative counters of a recording go on when it starts again.

Knows which fields are cumulative and who counts for itself; knows no times and no files.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from exporter.records.device_detail import CounterName, DetailReading
from exporter.records.trace import (
    EngineRecord,
    KvRecord,
    PrefixCache,
    ScheduledTokens,
    TorchRecord,
    TraceRecord,
)

Writer = tuple[str, str, str, int | None, str | None, int | None]
"""Record type, replica, engine, pid, rank: each of these counts for itself."""

Growth = Mapping[Writer, Mapping[str, float]]
"""By how much one lap raises each counter (``prefix_cache.hit_tokens``) of each writer."""

DetailGrowth = Mapping[str, Mapping[CounterName, float]]
"""By how much one lap raises each counter of each GPU, by UUID."""

_CUMULATIVE: dict[type[Struct], tuple[str, ...]] = {
    EngineRecord: ("errors", "dropped_records", "plugin_seconds"),
    KvRecord: ("prefix_cache", "tokens", "preemptions", "evictions"),
    PrefixCache: ("query_tokens", "hit_tokens", "vllm_query_tokens", "vllm_hit_tokens"),
    ScheduledTokens: ("prompt", "generation"),
    TorchRecord: ("alloc_retries", "ooms"),
}

_S = TypeVar("_S", bound=Struct)


def growth(records: Iterable[TraceRecord]) -> Growth:
    """What one lap adds: last − first of each counter of each writer, never below 0."""
    first: dict[Writer, dict[str, float]] = {}
    last: dict[Writer, dict[str, float]] = {}
    for record in records:
        counters = dict(_counters(record))
        first[_writer(record)] = counters | first.get(_writer(record), {})
        last[_writer(record)] = last.get(_writer(record), {}) | counters
    return {
        writer: {name: max(0, value - first[writer][name]) for name, value in counters.items()}
        for writer, counters in last.items()
    }


def continued(record: TraceRecord, per_lap: Growth, lap: int) -> TraceRecord:
    """The record as it stands in a lap (the first is 0): its counters raised by `lap` growths.

    Args: per_lap: the growth of the recording that the record belongs to.
    """
    return _raised(record, per_lap[_writer(record)], lap)


def growth_of_details(readings: Iterable[DetailReading]) -> DetailGrowth:
    """What one lap adds to the counters of each GPU, by UUID; never below 0."""
    first: dict[str, dict[CounterName, float]] = {}
    last: dict[str, dict[CounterName, float]] = {}
    for reading in readings:
        for uuid, detail in reading.gpus.items():
            first[uuid] = {**detail.counters, **first.get(uuid, {})}
            last[uuid] = {**last.get(uuid, {}), **detail.counters}
    return {
        uuid: {name: max(0, count - first[uuid][name]) for name, count in counters.items()}
        for uuid, counters in last.items()
    }


def continued_details(reading: DetailReading, per_lap: DetailGrowth, lap: int) -> DetailReading:
    """The reading as it stands in a lap (the first is 0), as `continued`."""
    gpus = {
        uuid: replace(
            detail,
            counters={
                name: count + lap * per_lap[uuid][name] for name, count in detail.counters.items()
            },
        )
        for uuid, detail in reading.gpus.items()
    }
    return replace(reading, gpus=gpus)


def _writer(record: TraceRecord) -> Writer:
    return type(record).__name__, record.replica, record.engine, *record.writer


def _counters(struct: Struct, prefix: str = "") -> Iterator[tuple[str, float]]:
    for field in _CUMULATIVE.get(type(struct), ()):
        value = getattr(struct, field)
        if isinstance(value, Struct):
            yield from _counters(value, f"{prefix}{field}.")
        elif value is not None:
            yield f"{prefix}{field}", value


def _raised(struct: _S, per_lap: Mapping[str, float], lap: int, prefix: str = "") -> _S:
    changes: dict[str, Any] = {}
    for field in _CUMULATIVE.get(type(struct), ()):
        value = getattr(struct, field)
        if isinstance(value, Struct):
            changes[field] = _raised(value, per_lap, lap, f"{prefix}{field}.")
        elif value is not None:
            changes[field] = value + lap * per_lap[prefix + field]
    return replace(struct, **changes)
