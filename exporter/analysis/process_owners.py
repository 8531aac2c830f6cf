"""Which engine's worker each listed process is, as far as a View tells."""

from msgspec import Struct

from exporter.analysis.process_join import join_processes
from exporter.analysis.worker import Worker
from exporter.records.view import DeviceView, RankView, View

GpuProcess = tuple[str, int]
"""uuid of the GPU and pid there."""


class Owners(Struct, frozen=True):
    """`ranks`: the workers' processes, also on GPUs that these merely touch.

    `unclear`: processes of which one is a worker's, but which is not known. All others belong to
    no known engine.
    """

    ranks: dict[GpuProcess, RankView]
    unclear: frozenset[GpuProcess]


def owners(view: View) -> Owners:
    """Join workers to processes by GPU, then by pid, then by who can be it (see `join_processes`).

    A View tells the pid by which a worker knows itself; in containers the driver's is another one.
    So an equal pid counts only where the process holds at least what torch has reserved.
    """
    processes = {device.facts.uuid: _processes(device) for device in view.devices}
    workers = {
        (rank.replica, rank.engine, rank.rank): _worker(rank, processes.get(rank.torch.uuid or ""))
        for rank in view.ranks
    }
    ranks_by_key = {(rank.replica, rank.engine, rank.rank): rank for rank in view.ranks}
    known_pids = frozenset(
        worker.host_pid for worker in workers.values() if worker.host_pid is not None
    )
    rank_of_pid: dict[int, RankView] = {}
    unclear: set[GpuProcess] = set()
    for uuid, listed in processes.items():
        here = [worker for worker in workers.values() if worker.torch.uuid == uuid]
        join = join_processes(listed, here, known_pids)
        for pid, joined in join.workers.items():
            rank_of_pid[pid] = ranks_by_key[joined[0].key]
        unclear.update((uuid, pid) for pid in join.unclear_pids)
    ranks = {
        (uuid, pid): rank_of_pid[pid]
        for uuid, listed in processes.items()
        for pid in listed
        if pid in rank_of_pid
    }
    return Owners(ranks, frozenset(unclear - ranks.keys()))


def _processes(device: DeviceView) -> dict[int, int | None]:
    processes = device.sample.processes if device.sample else None
    return {process.pid: process.used_bytes for process in processes or ()}


def _worker(rank: RankView, listed: dict[int, int | None] | None) -> Worker:
    torch = rank.torch
    pid = torch.pid
    is_it = pid is not None and listed is not None and pid in listed
    if is_it and pid is not None and listed is not None and torch.reserved_bytes is not None:
        used_bytes = listed[pid]
        hides_memory = torch.is_asleep or torch.has_pluggable_allocator
        is_it = used_bytes is None or bool(hides_memory) or used_bytes >= torch.reserved_bytes
    return Worker(
        replica=rank.replica,
        engine=rank.engine,
        torch=torch,
        torch_age_intervals=0.0,
        host_pid=pid if is_it else None,
    )
