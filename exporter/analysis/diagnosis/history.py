"""Distils a sequence of Views into what a diagnosis needs; its size does not grow with time."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from exporter.analysis.diagnosis.timeline import Timeline
from exporter.analysis.diagnosis.timeline import advanced as timeline_advanced
from exporter.records.conflict import Conflict
from exporter.records.device import DeviceFacts, DeviceSample
from exporter.records.ledger import Ledger, Owner
from exporter.records.source import SourceHealth
from exporter.records.trace import EngineRecord, KvRecord, TorchRecord
from exporter.records.view import DeviceView, EngineView, RankView, View

MINUTE_NS = 60_000_000_000
KEPT_MINUTES = 16

EngineKey = tuple[str, str]
RankKey = tuple[str, str, int]


class Extreme(Struct, frozen=True):
    """A largest or smallest figure, and when it was first seen."""

    value: float
    ts_unix_ns: int


class Count(Struct, frozen=True):
    """A cumulative count when it was first and last told, and by how much it rose in between.

    A count that goes back (a daemon that was restarted meanwhile) adds nothing.
    """

    first: float
    last: float
    growth: float = 0.0


class DeviceHistory(Struct, frozen=True, kw_only=True):
    """One GPU; counts are in Views. `sample`, `ledger`: the newest ones, None before the first.

    `reason_views`: Views that told event reasons; `active_reasons`: in how many each held the
    clocks down. `hidden_process_views`: where the driver listed no processes or not their bytes.
    `ledger_reasons`: where a split fell back, by reason. `has_served`: whether conflicts are
    counted here, which begins when an engine serves.
    """

    facts: DeviceFacts
    is_up: bool = False
    sample: DeviceSample | None = None
    ledger: Ledger | None = None
    sampled_views: int = 0
    reason_views: int = 0
    active_reasons: dict[str, int] = {}
    hidden_process_views: int = 0
    ledger_reasons: dict[str, int] = {}
    has_served: bool = False


class EngineHistory(Struct, frozen=True, kw_only=True):
    """One engine; records and ratios are the newest that were told, counts first and last."""

    replica: str
    engine: str
    is_up: bool = False
    last_up_unix_ns: int | None = None
    kv: KvRecord | None = None
    facts: EngineRecord | None = None
    usage_peak: Extreme | None = None
    waiting_peak: Extreme | None = None
    exhaustion_seconds: float | None = None
    contiguity_ratio: float | None = None
    preemptions: Count | None = None
    evictions: Count | None = None
    query_tokens: Count | None = None
    hit_tokens: Count | None = None


class RankHistory(Struct, frozen=True, kw_only=True):
    """One worker. `parts_bytes`: of its process by owner, None where they are not told apart.

    `minute_gaps_bytes`, `minute_allocated_bytes`: the least by whole minute since the first View;
    the newest minute is still going on.
    """

    replica: str
    engine: str
    rank: int
    torch: TorchRecord
    device: int | None
    last_unix_ns: int
    parts_bytes: dict[Owner, int] | None = None
    gap_peak_bytes: Extreme | None = None
    margin_least_bytes: Extreme | None = None
    retries: Count | None = None
    ooms: Count | None = None
    minute_gaps_bytes: dict[int, int] = {}
    minute_allocated_bytes: dict[int, int] = {}


class History(Struct, frozen=True, kw_only=True):
    """Everything seen from the first to the last View. `conflicts`, `sources`: as last told."""

    first_unix_ns: int
    last_unix_ns: int
    views: int = 0
    replay: str | None = None
    devices: dict[str, DeviceHistory] = {}
    engines: dict[EngineKey, EngineHistory] = {}
    ranks: dict[RankKey, RankHistory] = {}
    sources: tuple[SourceHealth, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    timeline: Timeline = Timeline()

    def overlaps(self, conflict: Conflict) -> bool:
        """Whether the conflict was going on in this time; those that ended before are over."""
        return conflict.ended_unix_ns is None or conflict.ended_unix_ns >= self.first_unix_ns

    def ranks_of(self, engine: EngineHistory) -> list[RankHistory]:
        """An engine's workers that told of their allocator, by rank."""
        key = (engine.replica, engine.engine)
        return [rank for (*of, _), rank in sorted(self.ranks.items()) if tuple(of) == key]

    def ranks_beside(self, rank: RankHistory) -> list[RankHistory]:
        """The other workers of its engine, by rank."""
        key = (rank.replica, rank.engine)
        return [
            other
            for (*of, number), other in sorted(self.ranks.items())
            if tuple(of) == key and number != rank.rank
        ]


def whole_minutes(minute_bytes: Mapping[int, int]) -> Sequence[int]:
    """Figures of the whole minutes that lie next to each other, up to the last one."""
    minute = max(minute_bytes, default=0) - 1  # the newest minute still goes on
    figures: list[int] = []
    while minute in minute_bytes:
        figures.insert(0, minute_bytes[minute])
        minute -= 1
    return figures


def advanced(before: History | None, view: View) -> History:
    """The history after one more View; Views come in the order of their time."""
    ts_unix_ns = view.ts_unix_ns
    history = before or History(first_unix_ns=ts_unix_ns, last_unix_ns=ts_unix_ns)
    devices = {uuid: replace(device, is_up=False) for uuid, device in history.devices.items()}
    for device in view.devices:
        uuid = device.facts.uuid
        devices[uuid] = _device(devices.get(uuid) or DeviceHistory(facts=device.facts), device)
    engines = {key: replace(engine, is_up=False) for key, engine in history.engines.items()}
    for engine in view.engines:
        key = (engine.replica, engine.engine)
        known = engines.get(key) or EngineHistory(replica=engine.replica, engine=engine.engine)
        engines[key] = _engine(known, engine, ts_unix_ns)
    ranks = dict(history.ranks)
    minute = (ts_unix_ns - history.first_unix_ns) // MINUTE_NS
    for rank in view.ranks:
        rank_key = (rank.replica, rank.engine, rank.rank)
        ranks[rank_key] = _rank(ranks.get(rank_key), rank, ts_unix_ns, minute)
    return History(
        first_unix_ns=history.first_unix_ns,
        last_unix_ns=max(history.last_unix_ns, ts_unix_ns),
        views=history.views + 1,
        replay=view.replay,
        devices=devices,
        engines=engines,
        ranks=ranks,
        sources=view.sources,
        conflicts=view.conflicts,
        timeline=timeline_advanced(history.timeline, view),
    )


def _device(before: DeviceHistory, device: DeviceView) -> DeviceHistory:
    sample = device.sample
    if sample is None:
        return replace(before, is_up=device.is_up)
    processes = sample.processes
    is_hidden = processes is None or any(process.used_bytes is None for process in processes)
    reasons = sample.event_reasons
    return replace(
        before,
        is_up=device.is_up,
        sample=sample,
        ledger=device.ledger,
        sampled_views=before.sampled_views + 1,
        reason_views=before.reason_views + (reasons is not None),
        active_reasons=_counted(
            before.active_reasons,
            [name for name, is_active in (reasons or {}).items() if is_active],
        ),
        hidden_process_views=before.hidden_process_views + is_hidden,
        ledger_reasons=_counted(
            before.ledger_reasons, device.ledger.reasons if device.ledger else ()
        ),
        has_served=before.has_served or device.conflicts is not None,
    )


def _engine(before: EngineHistory, engine: EngineView, ts_unix_ns: int) -> EngineHistory:
    kv, counters = engine.kv, engine.counters
    usage = engine.usage_window.max if engine.usage_window else engine.usage_ratio
    return replace(
        before,
        is_up=engine.is_up,
        last_up_unix_ns=ts_unix_ns if engine.is_up else before.last_up_unix_ns,
        kv=kv or before.kv,
        facts=engine.facts or before.facts,
        usage_peak=_peak(before.usage_peak, usage, ts_unix_ns),
        waiting_peak=_peak(before.waiting_peak, kv.waiting if kv else None, ts_unix_ns),
        exhaustion_seconds=engine.exhaustion_seconds,
        contiguity_ratio=_newest(before.contiguity_ratio, engine.contiguity_ratio),
        preemptions=_count(before.preemptions, counters.preemptions),
        evictions=_count(before.evictions, counters.evictions),
        query_tokens=_count(before.query_tokens, counters.query_tokens),
        hit_tokens=_count(before.hit_tokens, counters.hit_tokens),
    )


def _rank(before: RankHistory | None, rank: RankView, ts_unix_ns: int, minute: int) -> RankHistory:
    known = before or RankHistory(
        replica=rank.replica,
        engine=rank.engine,
        rank=rank.rank,
        torch=rank.torch,
        device=rank.device,
        last_unix_ns=ts_unix_ns,
    )
    gap_bytes, margin_bytes = rank.fragmentation_bytes, rank.oom_margin_bytes
    least = known.margin_least_bytes
    if margin_bytes is not None and (least is None or margin_bytes < least.value):
        least = Extreme(margin_bytes, ts_unix_ns)
    return replace(
        known,
        torch=rank.torch,
        device=rank.device,
        last_unix_ns=ts_unix_ns,
        parts_bytes=rank.parts_bytes,
        gap_peak_bytes=_peak(known.gap_peak_bytes, gap_bytes, ts_unix_ns),
        margin_least_bytes=least,
        retries=_count(known.retries, rank.alloc_retries),
        ooms=_count(known.ooms, rank.ooms),
        minute_gaps_bytes=_least(known.minute_gaps_bytes, minute, gap_bytes),
        minute_allocated_bytes=_least(
            known.minute_allocated_bytes, minute, rank.torch.allocated_bytes
        ),
    )


def _least(before: dict[int, int], minute: int, told_bytes: int | None) -> dict[int, int]:
    if told_bytes is None:
        return before
    least = {**before, minute: min(told_bytes, before.get(minute, told_bytes))}
    return {at: figure for at, figure in least.items() if at > minute - KEPT_MINUTES}


Figure = TypeVar("Figure")


def _newest(before: Figure | None, told: Figure | None) -> Figure | None:
    return before if told is None else told


def _peak(before: Extreme | None, value: float | None, ts_unix_ns: int) -> Extreme | None:
    if value is None or (before is not None and value <= before.value):
        return before
    return Extreme(value, ts_unix_ns)


def _count(before: Count | None, told: float | None) -> Count | None:
    if told is None or before is None:
        return before if told is None else Count(told, told)
    return Count(before.first, told, before.growth + max(0.0, told - before.last))


def _counted(before: Mapping[str, int], names: list[str] | tuple[str, ...]) -> dict[str, int]:
    counted = dict(before)
    for name in names:
        counted[name] = counted.get(name, 0) + 1
    return counted
