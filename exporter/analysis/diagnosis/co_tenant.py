"""Cause: a process of no engine takes memory of an engine's GPU."""

from collections.abc import Iterator

from exporter.analysis.diagnosis.finding import (
    Finding,
    Judgement,
    NotJudged,
    gigabytes,
    moment,
)
from exporter.analysis.diagnosis.history import History
from exporter.records.conflict import Conflict

_ADVICE = (
    "Give the process another GPU or stop it; if it belongs there, list its name under"
    " conflicts.expected_processes and leave it room with a lower --gpu-memory-utilization."
)


def judged(history: History) -> Iterator[Judgement]:
    """One finding for each process that took memory in this time."""
    watched = [device for device in history.devices.values() if device.has_served]
    if not watched:
        yield NotJudged(
            "co_tenant", "no engine was seen to serve on a GPU whose processes are told"
        )
        return
    found = [
        conflict
        for conflict in history.conflicts
        if conflict.kind in ("co_tenant", "pressure") and not _is_over(conflict, history)
    ]
    yield from (_finding(conflict, history) for conflict in found)
    if not found:
        names = ", ".join(sorted(f"cuda:{device.facts.index}" for device in watched))
        evidence = f"{names}: no process of no engine took memory in this time"
        yield Finding(cause="co_tenant", verdict="ok", evidence=(evidence,))


def _is_over(conflict: Conflict, history: History) -> bool:
    return conflict.ended_unix_ns is not None and conflict.ended_unix_ns < history.first_unix_ns


def _finding(conflict: Conflict, history: History) -> Finding:
    who = f"pid {conflict.pid}"
    row = next(
        (row for row in conflict.processes if (row.uuid, row.pid) == (conflict.uuid, conflict.pid)),
        None,
    )
    if row and row.name:
        who += f" ({row.name})"
    primary = _gpu(conflict.uuid, history)
    held = f", holds {gigabytes(conflict.used_bytes)} there" if conflict.used_bytes else ""
    grown = gigabytes(conflict.growth_bytes.get(conflict.uuid, 0))
    if conflict.kind == "co_tenant":
        told = f"{who}: primary GPU {primary}: took {grown}{held}"
    else:
        told = f"{primary} is full: processes of no engine took {grown}, most of it {who}{held}"
    evidence = [told, _times(conflict)]
    evidence += [
        f"{who}: {gigabytes(growth_bytes)} on {_gpu(uuid, history)}"
        for uuid, growth_bytes in conflict.growth_bytes.items()
        if uuid != conflict.uuid
    ]
    return Finding(
        cause="co_tenant",
        verdict="act" if conflict.ended_unix_ns is None else "watch",
        evidence=tuple(evidence),
        advice=_ADVICE,
    )


def _times(conflict: Conflict) -> str:
    begin = moment(conflict.ts_unix_ns)
    if conflict.ended_unix_ns is None:
        return f"since {begin}, still there"
    seconds = (conflict.ended_unix_ns - conflict.ts_unix_ns) / 1e9
    return f"from {begin} to {moment(conflict.ended_unix_ns)} ({seconds:.0f} s)"


def _gpu(uuid: str, history: History) -> str:
    device = history.devices.get(uuid)
    return f"cuda:{device.facts.index}" if device else uuid
