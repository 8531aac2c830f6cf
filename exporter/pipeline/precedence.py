"""One record out of several origins' records: plugin beats vLLM's /metrics beats log, per figure.

Pure; freshness is for the caller to judge.
"""

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from exporter.history.origin import ORIGINS
from exporter.records.trace import EngineRecord, KvRecord, Record

Kind = TypeVar("Kind", KvRecord, EngineRecord)

SEVERITY = {None: 0, "active": 0, "degraded": 1, "unsupported": 2}


def best_first(records: Iterable[Kind]) -> list[Kind]:
    """The records in the order in which their figures count."""
    return sorted(records, key=lambda record: ORIGINS.index(record.origin))


def merged(records: Iterable[Kind]) -> Kind | None:
    """The first record; each figure that it does not tell comes from the next one that does.

    Time, process, interval and origin stay the first one's. None without records.
    """
    whole: Kind | None = None
    for record in records:
        if whole is None:
            whole = record
            continue
        missing = {
            name: value
            for name in record.__struct_fields__
            if name not in Record.__struct_fields__
            and getattr(whole, name) is None
            and (value := getattr(record, name)) is not None
        }
        if missing:
            whole = msgspec.structs.replace(whole, **missing)
    return whole


def merged_facts(records: Iterable[EngineRecord], scheduler_pid: int | None) -> EngineRecord | None:
    """The scheduler's facts, with what only /metrics tells.

    Workers tell of themselves alone, unless the scheduler is silent; one that is not active makes
    the engine degraded.
    """
    told = best_first(records)
    if not told:
        return None
    of_best = [record for record in told if record.origin == told[0].origin]
    facts = next(
        (record for record in of_best if record.pid == scheduler_pid and record.role != "worker"),
        of_best[0],
    )
    facts = merged([facts, *told[len(of_best) :]]) or facts
    worst = max(told, key=lambda record: SEVERITY[record.status])
    if SEVERITY[worst.status] > SEVERITY[facts.status]:
        reason = f"{worst.role}: {worst.reason}" if worst.role else worst.reason
        facts = msgspec.structs.replace(facts, status="degraded", reason=reason)
    return facts
