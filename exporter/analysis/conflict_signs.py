"""What looks like a conflict at one reading; remembers nothing."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from exporter.analysis.fragmentation import oom_margin_bytes
from exporter.analysis.growth import GpuGrowth
from exporter.analysis.pressure import device_pressure
from exporter.analysis.worker import Worker, WorkerKey
from exporter.records.conflict import Conflict, ConflictKind, ProcessRow

PRESSURE_HYSTERESIS = 0.02

SignKey = tuple[ConflictKind, str | None, int | WorkerKey | None]
"""What one conflict is about: its kind, its GPU (None: any) and its process or worker."""


class ConflictRules(Struct, frozen=True, kw_only=True):
    """When a conflict begins.

    `expected_processes`: names of processes that may take memory beside an engine. A co-tenant is
    one that grew by `min_growth_bytes`; pressure begins at `pressure_ratio` of what is usable.
    """

    expected_processes: frozenset[str] = frozenset()
    min_growth_bytes: int = 256 * 2**20
    pressure_ratio: float = 0.95

    @property
    def end_growth_bytes(self) -> int:
        """Growth below which a conflict ends, half of what begins one, so that none flickers."""
        return self.min_growth_bytes // 2


class Sign(NamedTuple):
    """A conflict as it would be told now, without its id.

    `is_onset`: strong enough to begin one; weaker ones only keep one going.
    """

    key: SignKey
    is_onset: bool
    conflict: Conflict


def co_tenants(
    gpus: Mapping[str, GpuGrowth], rules: ConflictRules, ts_unix_ns: int
) -> Iterator[Sign]:
    """Processes of no engine that grew on an engine's GPU, each with all the GPUs it grew on.

    A CUDA process shows half a GB on GPUs that it merely touches: the GPU of its largest growth is
    the one that counts, also when no engine is known there.
    """
    growth_of: dict[int, dict[str, int]] = {}
    for uuid, gpu in gpus.items():
        for pid, growth_bytes in gpu.by_pid().items():
            growth_of.setdefault(pid, {})[uuid] = growth_bytes
    for pid, growth in growth_of.items():
        watched = max((growth[uuid] for uuid in growth if gpus[uuid].is_watched), default=0)
        if watched >= rules.end_growth_bytes and not is_expected(pid, gpus, rules):
            uuid = max(growth, key=growth.__getitem__)
            conflict = _conflict("co_tenant", uuid, pid, gpus, ts_unix_ns, growth)
            yield Sign(("co_tenant", None, pid), watched >= rules.min_growth_bytes, conflict)


def pressures(
    gpus: Mapping[str, GpuGrowth], rules: ConflictRules, ts_unix_ns: int
) -> Iterator[Sign]:
    """Full GPUs of engines on which processes of no engine grew, whether expected or not."""
    for uuid, gpu in gpus.items():
        ratio = device_pressure(gpu.memory) if gpu.memory else None
        if (
            not gpu.is_watched
            or ratio is None
            or ratio < rules.pressure_ratio - PRESSURE_HYSTERESIS
        ):
            continue
        growth = gpu.by_pid()
        total_bytes = sum(growth.values())
        if total_bytes >= rules.end_growth_bytes:
            is_onset = ratio >= rules.pressure_ratio and total_bytes >= rules.min_growth_bytes
            pid = max(growth, key=growth.__getitem__)
            conflict = _conflict("pressure", uuid, pid, gpus, ts_unix_ns, {uuid: total_bytes})
            yield Sign(("pressure", uuid, None), is_onset, conflict)


def thin_margins(
    gpus: Mapping[str, GpuGrowth],
    workers: Sequence[Worker],
    worker_pids: Mapping[WorkerKey, int],
    rules: ConflictRules,
    ts_unix_ns: int,
) -> Iterator[Sign]:
    """Workers of serving engines whose next peak would not fit: margin < 0."""
    for worker in workers:
        uuid = worker.torch.uuid or ""
        if uuid not in gpus or not gpus[uuid].is_watched or worker.hides_memory:
            continue
        margin_bytes = oom_margin_bytes(worker.torch)
        if margin_bytes is not None and margin_bytes < rules.end_growth_bytes:
            pid = worker_pids.get(worker.key)
            conflict = _conflict("margin", uuid, pid, gpus, ts_unix_ns, {}, margin_bytes)
            is_onset = margin_bytes < 0 and worker.is_serving
            yield Sign(("margin", uuid, worker.key), is_onset, conflict)


def is_expected(pid: int | None, gpus: Mapping[str, GpuGrowth], rules: ConflictRules) -> bool:
    """Whether the process has a name that may take memory beside an engine."""
    processes = (gpu.process(pid) for gpu in gpus.values())
    return any(process and process.name in rules.expected_processes for process in processes)


def _conflict(
    kind: ConflictKind,
    uuid: str,
    pid: int | None,
    gpus: Mapping[str, GpuGrowth],
    ts_unix_ns: int,
    growth_bytes: dict[str, int],
    margin_bytes: int | None = None,
) -> Conflict:
    rows = tuple(
        ProcessRow(uuid=at, pid=process.pid, name=process.name, used_bytes=process.used_bytes)
        for at, gpu in gpus.items()
        for process in gpu.processes
        if at == uuid or process.pid == pid
    )
    own = next((row for row in rows if (row.uuid, row.pid) == (uuid, pid)), None)
    return Conflict(
        id=0,
        ts_unix_ns=ts_unix_ns,
        kind=kind,
        uuid=uuid,
        pid=pid,
        used_bytes=own.used_bytes if own else None,
        growth_bytes=growth_bytes,
        margin_bytes=margin_bytes,
        processes=rows,
    )
