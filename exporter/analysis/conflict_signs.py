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
    """What a conflict would tell now; see `Conflict` for the fields.

    `is_onset`: strong enough to begin one; weaker ones only keep one going.
    """

    key: SignKey
    is_onset: bool
    uuid: str
    pid: int | None
    growth_bytes: dict[str, int]
    margin_bytes: int | None = None


def co_tenants(gpus: Mapping[str, GpuGrowth], rules: ConflictRules) -> Iterator[Sign]:
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
        if watched < rules.end_growth_bytes:
            continue
        uuid = max(growth, key=growth.__getitem__)
        if not is_expected(pid, gpus[uuid], rules):
            is_onset = watched >= rules.min_growth_bytes
            yield Sign(("co_tenant", None, pid), is_onset, uuid, pid, growth)


def pressures(gpus: Mapping[str, GpuGrowth], rules: ConflictRules) -> Iterator[Sign]:
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
            yield Sign(("pressure", uuid, None), is_onset, uuid, pid, {uuid: total_bytes})


def thin_margins(
    gpus: Mapping[str, GpuGrowth],
    workers: Sequence[Worker],
    worker_pids: Mapping[WorkerKey, int],
    rules: ConflictRules,
) -> Iterator[Sign]:
    """Workers of serving engines whose next peak would not fit: margin < 0."""
    for worker in workers:
        uuid = worker.torch.uuid or ""
        if uuid not in gpus or not gpus[uuid].is_watched or worker.hides_memory:
            continue
        margin_bytes = oom_margin_bytes(worker.torch)
        if margin_bytes is not None and margin_bytes < rules.end_growth_bytes:
            pid = worker_pids.get(worker.key)
            is_onset = margin_bytes < 0 and worker.is_serving
            yield Sign(("margin", uuid, worker.key), is_onset, uuid, pid, {}, margin_bytes)


def is_expected(pid: int | None, gpu: GpuGrowth | None, rules: ConflictRules) -> bool:
    """Whether the process is listed on that GPU and has a name that may take memory there."""
    process = gpu.process(pid) if gpu else None
    return process is not None and process.name in rules.expected_processes


def conflict_of(sign: Sign, gpus: Mapping[str, GpuGrowth], ts_unix_ns: int) -> Conflict:
    """What is told of the sign as a conflict that begins now; its id is still to be given."""
    rows = tuple(
        ProcessRow(uuid=uuid, pid=process.pid, name=process.name, used_bytes=process.used_bytes)
        for uuid, gpu in gpus.items()
        for process in gpu.processes
        if uuid == sign.uuid or process.pid == sign.pid
    )
    own = gpus[sign.uuid].process(sign.pid)
    return Conflict(
        id=0,
        ts_unix_ns=ts_unix_ns,
        kind=sign.key[0],
        uuid=sign.uuid,
        pid=sign.pid,
        used_bytes=own.used_bytes if own else None,
        growth_bytes=sign.growth_bytes,
        margin_bytes=sign.margin_bytes,
        processes=rows,
    )
