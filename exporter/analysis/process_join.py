"""Which process on a GPU is which worker's; knows pids and bytes, no /proc."""

from collections.abc import Iterable, Mapping, Set
from typing import NamedTuple

from exporter.analysis.worker import Worker


class ProcessJoin(NamedTuple):
    """The workers of one GPU by the pid of their process there.

    More than one worker at a pid is a contradiction of their records. `unclear_pids`: processes of
    which one is a worker's, but which is not known. Workers whose process is not listed are in
    neither: their memory is gone.
    """

    workers: dict[int, list[Worker]]
    unclear_pids: frozenset[int]


def join_processes(
    processes: Mapping[int, int | None], workers: Iterable[Worker], engine_pids: Set[int]
) -> ProcessJoin:
    """Find the processes of the workers whose records name this GPU.

    By translated pid; else, when one worker is left, it is the one process of this GPU that can be
    its: the only one, or the only one that holds at least what torch has reserved. A stale worker
    beside a fresh one is taken for dead.

    Args:
        processes: bytes by pid as the driver lists them on this GPU; None: it does not say.
        workers: those whose record names this GPU.
        engine_pids: known pids of all engines, also of workers of other GPUs.
    """
    joined: dict[int, list[Worker]] = {}
    unknown: list[Worker] = []
    for worker in workers:
        if worker.host_pid is None:
            unknown.append(worker)
        elif worker.host_pid in processes:
            joined.setdefault(worker.host_pid, []).append(worker)
    strangers = {pid: used for pid, used in processes.items() if pid not in engine_pids}
    if not unknown or not strangers:
        return ProcessJoin(joined, frozenset())
    unknown = [worker for worker in unknown if not worker.is_stale] or unknown
    if len(unknown) > 1:
        return ProcessJoin(joined, frozenset(strangers))
    candidates = _candidates(strangers, unknown[0])
    if len(candidates) > 1:
        return ProcessJoin(joined, candidates)
    return ProcessJoin({**joined, min(candidates): unknown}, frozenset())


def _candidates(strangers: Mapping[int, int | None], worker: Worker) -> frozenset[int]:
    """Processes that can be the worker's; all of them when no figure tells."""
    reserved_bytes = worker.torch.reserved_bytes
    if reserved_bytes is None or worker.hides_memory:
        return frozenset(strangers)
    large = [pid for pid, used in strangers.items() if used is None or used >= reserved_bytes]
    return frozenset(large or strangers)
