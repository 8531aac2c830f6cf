"""Conflicts over memory: state and one reading in, state and what began out.

Knows when a conflict begins and ends; looks up neither start times nor command lines.
"""

from collections.abc import Mapping, Sequence, Set
from itertools import chain, islice
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from exporter.analysis.conflict_signs import (
    ConflictRules,
    Sign,
    SignKey,
    co_tenants,
    conflict_of,
    is_expected,
    pressures,
    thin_margins,
)
from exporter.analysis.growth import GpuGrowth, advanced
from exporter.analysis.ledger import Ledgers
from exporter.analysis.worker import Worker
from exporter.records.conflict import Conflict, ConflictKind, ProcessRow
from exporter.records.device import DeviceSample

MAX_EVENTS = 100
KINDS: tuple[ConflictKind, ...] = ("co_tenant", "pressure", "margin")


class ConflictState(Struct, frozen=True, kw_only=True):
    """Everything remembered between readings; never changed, only replaced.

    `events`: the newest 100 conflicts by id, oldest first. `counts`: conflicts so far by uuid and
    kind, from 0 when an engine first serves on that GPU (a co-tenant counts where it grew most).
    `gpus`: growth by uuid. `pending`: co-tenants seen once, told at the next reading, when they
    show on all GPUs that they take. `standing`: ids of the conflicts that go on.
    """

    events: dict[int, Conflict] = {}
    counts: dict[str, dict[ConflictKind, int]] = {}
    last_id: int = 0
    gpus: dict[str, GpuGrowth] = {}
    pending: dict[SignKey, Conflict] = {}
    standing: dict[SignKey, int] = {}


class Advance(Struct, frozen=True):
    """The state after a reading, and the conflicts told for the first time with it."""

    state: ConflictState
    told: tuple[Conflict, ...]


def advance(
    state: ConflictState,
    rules: ConflictRules,
    ts_unix_ns: int,
    samples: Mapping[str, DeviceSample | None],
    workers: Sequence[Worker],
    ledgers: Ledgers,
) -> Advance:
    """Take one reading, once; `samples` and `workers` are what `ledgers` was made of.

    A conflict is told once, from its onset until its process goes, shrinks back, or its cause falls
    well below the threshold; then it can begin anew. A co-tenant is told at the reading after the
    one that first shows it, that is at most two sampling intervals after it took the memory.

    Args: ts_unix_ns: time of the reading.
    """
    engine_pids = ledgers.engine_pids | ledgers.unclear_pids
    gpus = _gpus(state, samples, engine_pids, ledgers.serving_uuids)
    signs = {
        sign.key: sign
        for sign in chain(
            co_tenants(gpus, rules),
            pressures(gpus, rules),
            thin_margins(gpus, workers, ledgers.worker_pids, rules),
        )
    }
    events, standing, pending = dict(state.events), dict[SignKey, int](), dict[SignKey, Conflict]()
    begun: list[_Begun] = []
    for key, event_id in state.standing.items():
        sign = signs.pop(key, None)
        if sign is not None:
            standing[key] = event_id
        if event_id in events:
            events[event_id] = _continued(events[event_id], sign, ts_unix_ns)
    for key, first in state.pending.items():
        sign = signs.pop(key, None)
        if sign is not None:
            now = conflict_of(sign, gpus, first.ts_unix_ns)
            growth_bytes = _larger(first.growth_bytes, now.growth_bytes)
            begun.append(_Begun(key, replace(now, growth_bytes=growth_bytes)))
        elif first.pid not in engine_pids and not is_expected(
            first.pid, gpus.get(first.uuid), rules
        ):
            begun.append(_Begun(key, replace(first, ended_unix_ns=ts_unix_ns)))
    for key, sign in signs.items():
        if not sign.is_onset:
            continue
        conflict = conflict_of(sign, gpus, ts_unix_ns)
        if conflict.kind == "co_tenant":
            pending[key] = conflict
        else:
            begun.append(_Begun(key, conflict))
    counts = _counts(state.counts, gpus, begun)
    told = tuple(
        replace(new.conflict, id=event_id) for event_id, new in enumerate(begun, state.last_id + 1)
    )
    for new, conflict in zip(begun, told, strict=True):
        events[conflict.id] = conflict
        if conflict.ended_unix_ns is None:
            standing[new.key] = conflict.id
    after = ConflictState(
        events=dict(islice(events.items(), max(0, len(events) - MAX_EVENTS), None)),
        counts=counts,
        last_id=state.last_id + len(told),
        gpus=gpus,
        pending=pending,
        standing=standing,
    )
    return Advance(after, told)


def described(
    state: ConflictState, event_id: int, processes: tuple[ProcessRow, ...]
) -> ConflictState:
    """The state with another process table in one conflict: start times, command lines."""
    if event_id not in state.events:
        return state
    conflict = replace(state.events[event_id], processes=processes)
    return replace(state, events={**state.events, event_id: conflict})


class _Begun(NamedTuple):
    key: SignKey
    conflict: Conflict


def _gpus(
    state: ConflictState,
    samples: Mapping[str, DeviceSample | None],
    engine_pids: Set[int],
    serving_uuids: Set[str],
) -> dict[str, GpuGrowth]:
    gpus = {}
    for uuid, sample in samples.items():
        gpu = advanced(state.gpus.get(uuid), sample, engine_pids, uuid in serving_uuids)
        if gpu is not None:
            gpus[uuid] = gpu
    return gpus


def _continued(told: Conflict, now: Sign | None, ts_unix_ns: int) -> Conflict:
    """A told conflict with its largest growth so far; ended when nothing shows it any more."""
    if now is None:
        return replace(told, ended_unix_ns=ts_unix_ns)
    growth_bytes = _larger(told.growth_bytes, now.growth_bytes)
    return told if growth_bytes == told.growth_bytes else replace(told, growth_bytes=growth_bytes)


def _larger(before: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    return {**before, **{uuid: max(now[uuid], before.get(uuid, 0)) for uuid in now}}


def _counts(
    before: Mapping[str, dict[ConflictKind, int]],
    gpus: Mapping[str, GpuGrowth],
    begun: Sequence[_Begun],
) -> dict[str, dict[ConflictKind, int]]:
    counts = dict(before)
    counted = [new.conflict for new in begun]
    watched = [uuid for uuid, gpu in gpus.items() if gpu.is_watched]
    for uuid in (*watched, *(conflict.uuid for conflict in counted)):
        counts.setdefault(uuid, dict.fromkeys(KINDS, 0))
    for conflict in counted:
        of_gpu = counts[conflict.uuid]
        counts[conflict.uuid] = {**of_gpu, conflict.kind: of_gpu[conflict.kind] + 1}
    return counts
