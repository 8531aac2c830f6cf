"""The ledger of one GPU, once it is known which process is which worker's."""

from collections import Counter
from collections.abc import Sequence, Set
from typing import NamedTuple

from exporter.analysis.process_join import ProcessJoin
from exporter.analysis.worker import ProcessSplit, WorkerKey, split_worker
from exporter.records.device import DeviceSample, ProcessMemory
from exporter.records.ledger import Ledger, LedgerReason, Owner


class GpuSplit(NamedTuple):
    """A GPU's ledger, and the parts of each worker's process that could be told apart in it."""

    ledger: Ledger
    parts_bytes: dict[WorkerKey, dict[Owner, int]]


def gpu_split(sample: DeviceSample, join: ProcessJoin, engine_pids: Set[int]) -> GpuSplit:
    """Owners of one GPU's memory, as it was sampled.

    total = driver_reserved + free + used (memory v2; v1 counts driver_reserved into used, where
    nobody can tell it apart); used = processes + unattributed. Where the processes are unknown or
    contradict used, all of it is `used_unsplit`.

    Args: engine_pids: processes of engines on any GPU; one that `join` does not know holds memory
    here that no record tells of.
    """
    memory = sample.memory
    if memory is None:
        return _unsplit({}, ())
    parts = (memory.used_bytes, memory.free_bytes, memory.reserved_bytes or 0)
    if min(parts) < 0 or sum(parts) != memory.total_bytes:
        return _unsplit({}, ("memory_contradictory",))
    owners: dict[Owner, int] = {"free": memory.free_bytes}
    if memory.reserved_bytes is not None:
        owners["driver_reserved"] = memory.reserved_bytes
    reason = _unusable(sample.processes, memory.used_bytes)
    if reason is not None:
        owners["used_unsplit"] = memory.used_bytes
        return _unsplit(owners, (reason,))
    by_pid = {
        process.pid: _split_process(process, join, engine_pids)
        for process in sample.processes or ()
    }
    splits = list(by_pid.values())
    reasons = [split.reason for split in splits if split.reason is not None]
    is_rest_in_no_process = sample.is_coherent and "process_bytes_unknown" not in reasons
    if not sample.is_coherent:
        reasons.append("memory_moved")
    if join.unclear_pids:
        reasons.append("pid_unknown")
    parts_bytes: Counter[Owner] = Counter()
    for split in splits:
        parts_bytes.update(split.owners_bytes)
    if is_rest_in_no_process and not join.unclear_pids:
        parts_bytes["other_processes"] += 0  # there may be none, and that is known
    rest_bytes = memory.used_bytes - parts_bytes.total()
    parts_bytes["unattributed" if is_rest_in_no_process else "used_unsplit"] += rest_bytes
    ledger = Ledger(
        owners_bytes={**owners, **parts_bytes},
        effective_used_bytes=_effective_used_bytes(memory.used_bytes, join, splits),
        reasons=tuple(dict.fromkeys(reasons)),
    )
    told_apart = {
        workers[0].key: by_pid[pid].owners_bytes
        for pid, workers in join.workers.items()
        if by_pid[pid].reason is None
    }
    return GpuSplit(ledger, told_apart)


def _unsplit(owners_bytes: dict[Owner, int], reasons: tuple[LedgerReason, ...]) -> GpuSplit:
    return GpuSplit(
        Ledger(owners_bytes=owners_bytes, effective_used_bytes=None, reasons=reasons), {}
    )


def _unusable(processes: Sequence[ProcessMemory] | None, used_bytes: int) -> LedgerReason | None:
    if processes is None:
        return "processes_unknown"
    known = [process.used_bytes for process in processes if process.used_bytes is not None]
    if known and min(known) < 0:
        return "contradictory"
    return "processes_exceed_used" if sum(known) > used_bytes else None


def _split_process(
    process: ProcessMemory, join: ProcessJoin, engine_pids: Set[int]
) -> ProcessSplit:
    pid, used_bytes = process.pid, process.used_bytes
    workers = join.workers.get(pid, [])
    if used_bytes is None:
        return ProcessSplit({}, None if workers else 0, "process_bytes_unknown")
    if len(workers) > 1:
        return ProcessSplit({"engine_unsplit": used_bytes}, None, "contradictory")
    if workers:
        return split_worker(workers[0], used_bytes)
    if pid in engine_pids:
        return ProcessSplit({"engine_unsplit": used_bytes}, 0, None)
    if pid in join.unclear_pids:
        return ProcessSplit({"used_unsplit": used_bytes}, None, None)
    return ProcessSplit({"other_processes": used_bytes}, 0, None)


def _effective_used_bytes(
    used_bytes: int, join: ProcessJoin, splits: Sequence[ProcessSplit]
) -> int | None:
    reclaimable_bytes = 0
    for split in splits:
        if split.reclaimable_bytes is None:
            return None
        reclaimable_bytes += split.reclaimable_bytes
    return used_bytes - reclaimable_bytes if join.workers else None
