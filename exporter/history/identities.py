"""Which process a record's name belongs to, when several processes write under the same one."""

from dataclasses import dataclass, field

from exporter.records.trace import EngineRecord, TorchRecord, TraceRecord

LIVE_INTERVALS = 3.0
"""A process is live until its newest record is this many of its shortest intervals old."""

FORGET_S = 600.0
MAX_SLOTS = 4096
"""What is remembered at once: some 2000 workers, each with its allocator and its facts."""

Slot = tuple[str, int]
"""(role or record type, rank): what at most one live process of an engine may fill.

Each origin has slots of its own: vLLM's /metrics and log tell of the same engine as the plugin.
"""


@dataclass(slots=True)
class _Process:
    last_seen_s: float
    interval_s: float
    names: dict[Slot, str] = field(default_factory=dict)

    def is_live(self, at_s: float) -> bool:
        return at_s - self.last_seen_s <= LIVE_INTERVALS * self.interval_s


class Identities:
    """Hands out the replica name under which a process's records are shown.

    The first live process of a slot keeps the plain name for as long as it lives; another live one
    is shown as ``NAME#PID`` for as long as it lives. A dead process's name is free again. Records
    must come in the order of their time. Beyond `MAX_SLOTS` nobody new gets a name until `forget`
    has made room: `refused` counts those records.
    """

    def __init__(self) -> None:
        self._engines: dict[tuple[str, str], dict[int | None, _Process]] = {}
        self._slots = 0
        self.refused = 0

    def replica_of(self, record: TraceRecord, seen_s: float) -> str | None:
        """Name to show the record under, None when there is no room for another one.

        `seen_s` is its time on the monotonic clock.
        """
        slot = _slot(record)
        processes = self._engines.get((record.replica, record.engine), {})
        process = processes.get(record.pid)
        if process is None or not process.is_live(seen_s):
            process = _Process(seen_s, record.interval_s)
        if slot not in process.names:
            if self._slots >= MAX_SLOTS:
                self.refused += 1
                return None
            self._slots += 1
        processes = self._engines.setdefault((record.replica, record.engine), processes)
        processes[record.pid] = process
        process.last_seen_s = max(process.last_seen_s, seen_s)
        process.interval_s = min(process.interval_s, record.interval_s)
        name = process.names.get(slot)
        if name is None:
            is_taken = any(
                other.is_live(seen_s) and other.names.get(slot) == record.replica
                for other in processes.values()
                if other is not process
            )
            name = f"{record.replica}#{record.pid}" if is_taken else record.replica
            process.names[slot] = name
        return name

    def duplicates(self, now_s: float) -> int:
        """How many live processes are shown under another name than their own."""
        return sum(
            process.is_live(now_s) and any(name != replica for name in process.names.values())
            for (replica, _engine), processes in self._engines.items()
            for process in processes.values()
        )

    def forget(self, now_s: float) -> None:
        """Drop processes that have been silent for ten minutes."""
        for key, processes in list(self._engines.items()):
            for pid, process in list(processes.items()):
                if now_s - process.last_seen_s > FORGET_S and not process.is_live(now_s):
                    del processes[pid]
            if not processes:
                del self._engines[key]
        self._slots = sum(
            len(process.names)
            for processes in self._engines.values()
            for process in processes.values()
        )


def _slot(record: TraceRecord) -> Slot:
    if isinstance(record, TorchRecord):
        return "torch", record.rank
    if isinstance(record, EngineRecord):
        return f"engine {record.origin} {record.role or ''}", record.rank or 0
    return f"kv {record.origin}", 0
