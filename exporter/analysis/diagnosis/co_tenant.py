"""Cause: a process of no engine takes memory of an engine's GPU."""

from collections.abc import Iterator, Sequence

from exporter.analysis.diagnosis.finding import (
    Judged,
    Judgement,
    Unjudged,
    gigabytes,
    moment,
    rank_name,
)
from exporter.analysis.diagnosis.history import History
from exporter.records.conflict import Conflict

_ADVICE = (
    "Give the process another GPU or stop it; if it belongs there, list its name under"
    " conflicts.expected_processes and leave it room with a lower --gpu-memory-utilization."
)


def judged(history: History) -> Iterator[Judgement]:
    """One judgement for each process that took memory in this time."""
    watched = [device for device in history.devices.values() if device.has_served]
    if not watched:
        yield Unjudged("", "no engine was seen to serve on a GPU whose processes are told")
        return
    found = [conflict for conflict in history.conflicts if history.overlaps(conflict)]
    tenants = [conflict for conflict in found if conflict.kind == "co_tenant"]
    full = [conflict for conflict in found if conflict.kind == "pressure"]
    for tenant in tenants:
        own = [each for each in full if (each.uuid, each.pid) == (tenant.uuid, tenant.pid)]
        full = [each for each in full if each not in own]
        yield _judged(tenant, own, history)
    for conflict in full:
        yield _judged(conflict, [conflict], history)
    if not tenants and not full:
        names = ", ".join(sorted(f"cuda:{device.facts.index}" for device in watched))
        yield Judged(subject=names, evidence=("no process beside engines took memory",))


def _judged(conflict: Conflict, full: Sequence[Conflict], history: History) -> Judged:
    """Args: full: conflicts of kind `pressure` that are told together with it."""
    primary = _gpu(conflict.uuid, history)
    row = next(
        (row for row in conflict.processes if (row.uuid, row.pid) == (conflict.uuid, conflict.pid)),
        None,
    )
    name = f" ({row.name})" if row and row.name else ""
    grown = gigabytes(conflict.growth_bytes.get(conflict.uuid, 0))
    if conflict.kind == "pressure":
        taken = f"most of the {grown} that processes beside engines took of {primary}"
    else:
        taken = f"took {grown} of {primary}, its primary GPU"
    evidence = [f"{taken}, {_times(conflict)}"]
    evidence += [f"{primary} was nearly full {_times(each)}" for each in full]
    evidence += _victims(conflict.uuid, history)
    evidence += [
        f"took {gigabytes(growth_bytes)} of {_gpu(uuid, history)}"
        for uuid, growth_bytes in conflict.growth_bytes.items()
        if uuid != conflict.uuid
    ]
    return Judged(
        subject=f"pid {conflict.pid}{name}",
        verdict="act" if conflict.ended_unix_ns is None else "watch",
        evidence=tuple(evidence),
        advice=_ADVICE,
    )


def _victims(uuid: str, history: History) -> Iterator[str]:
    """The workers on that GPU."""
    for _key, rank in sorted(history.ranks.items()):
        if rank.torch.uuid == uuid:
            others = len(history.ranks_beside(rank))
            fate = f"; if it runs out of memory, all {others + 1} ranks end"
            name = rank_name(rank.replica, rank.engine, rank.rank)
            yield f"{name} runs there{fate if others else ''}"


def _times(conflict: Conflict) -> str:
    begin = moment(conflict.ts_unix_ns)
    if conflict.ended_unix_ns is None:
        return f"since {begin}, still there"
    seconds = (conflict.ended_unix_ns - conflict.ts_unix_ns) / 1e9
    return f"from {begin} to {moment(conflict.ended_unix_ns)} ({seconds:.0f} s)"


def _gpu(uuid: str, history: History) -> str:
    device = history.devices.get(uuid)
    return f"cuda:{device.facts.index}" if device else uuid
