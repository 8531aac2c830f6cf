"""Which listed process is which worker's: pids of the engine's view become the driver's."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

from exporter.analysis.worker import Worker, WorkerKey
from exporter.records.process import ProcessFacts

EngineKey = tuple[str, str]
"""Replica and engine."""

ListedPids = Mapping[str, Collection[int]]
"""The driver's processes by GPU uuid; GPUs whose processes it does not list are left out."""


class HostPids:
    """Translates pids where the operating system tells; else remembers what the ledger found."""

    def __init__(self, processes: ProcessFacts) -> None:
        self._processes = processes
        self._by_own_pid: dict[str, dict[int | None, list[int]]] = {}
        self._found: dict[WorkerKey, tuple[int | None, int]] = {}

    def refresh(self, listed: ListedPids, now_s: float) -> None:
        """Take the lists of one reading; `now_s` is monotonic seconds."""
        pids = frozenset(pid for of_gpu in listed.values() for pid in of_gpu)
        own_pids = self._processes.own_pids(pids, now_s)
        self._by_own_pid = {}
        for uuid, of_gpu in listed.items():
            known = self._by_own_pid[uuid] = {}
            for pid in of_gpu:
                if pid in own_pids:
                    known.setdefault(own_pids[pid], []).append(pid)

    def with_host_pids(self, workers: Iterable[Worker], listed: ListedPids) -> list[Worker]:
        """The workers with their pids on the host, as far as these are known.

        Left out are those that have fallen silent and are certainly none of the listed processes.
        """
        return [
            replace(worker, host_pid=self._host_pid(worker))
            for worker in workers
            if not (worker.is_stale and self._is_gone(worker, listed))
        ]

    def of_engines(
        self, own_pids: Mapping[EngineKey, Collection[int]], workers: Sequence[Worker]
    ) -> frozenset[int]:
        """Processes of engines on the GPUs of their workers; without workers, on any GPU.

        Args: own_pids: pids by which the processes of each engine know themselves.
        """
        uuids: dict[EngineKey, set[str]] = {}
        for worker in workers:
            uuids.setdefault((worker.replica, worker.engine), set()).add(worker.torch.uuid or "")
        found: set[int] = set()
        for key, pids in own_pids.items():
            for own_pid in pids:
                found.update(self._matches(own_pid, uuids.get(key) or self._by_own_pid))
        return frozenset(found)

    def remember(self, workers: Sequence[Worker], worker_pids: Mapping[WorkerKey, int]) -> None:
        """Keep what the ledger found out: it holds for as long as the worker's process is it."""
        kept = {}
        for worker in workers:
            pid = worker_pids.get(worker.key, worker.host_pid)
            if pid is not None:
                kept[worker.key] = worker.torch.pid, pid
        self._found = kept

    def _host_pid(self, worker: Worker) -> int | None:
        for pid in self._matches(worker.torch.pid, [worker.torch.uuid or ""]):
            return pid
        own_pid, found = self._found.get(worker.key, (None, None))
        return found if own_pid == worker.torch.pid else None

    def _matches(self, own_pid: int | None, uuids: Iterable[str]) -> frozenset[int]:
        """The one process with that pid in its own view; none when there are several."""
        matches = {pid for uuid in uuids for pid in self._by_own_pid.get(uuid, {}).get(own_pid, ())}
        return frozenset(matches if len(matches) == 1 else ())

    def _is_gone(self, worker: Worker, listed: ListedPids) -> bool:
        uuid = worker.torch.uuid or ""
        known = self._by_own_pid.get(uuid)
        if known is None or worker.torch.pid in known:
            return False
        return sum(map(len, known.values())) == len(listed[uuid])
