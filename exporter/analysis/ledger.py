"""The memory ledger: every byte of every GPU has one owner. Knows records, not their origin."""

from collections import Counter
from collections.abc import Mapping, Sequence, Set

from msgspec import Struct

from exporter.analysis.gpu_ledger import gpu_split
from exporter.analysis.process_join import ProcessJoin, join_processes
from exporter.analysis.worker import Worker, WorkerKey
from exporter.records.device import DeviceSample
from exporter.records.ledger import Ledger, LedgerReason, Owner


class Ledgers(Struct, frozen=True, kw_only=True):
    """The ledgers of one moment, by uuid, and what was found out about processes on the way.

    `parts_bytes`: by uuid, of each worker there whose process could be told apart.
    `reasons`: how many GPUs have a split that fell back, by reason; `unknown_gpu` counts workers.
    `worker_pids`: pid of each worker whose process is known, as the driver sees it. `engine_pids`:
    of all processes of engines. `unclear_pids`: processes of which one is a worker's, but which is
    not known. `serving_uuids`: GPUs on which an engine that serves holds memory.
    """

    by_uuid: dict[str, Ledger]
    parts_bytes: dict[str, dict[WorkerKey, dict[Owner, int]]]
    reasons: dict[LedgerReason, int]
    worker_pids: dict[WorkerKey, int]
    engine_pids: frozenset[int]
    unclear_pids: frozenset[int]
    serving_uuids: frozenset[str]


def ledgers(
    samples: Mapping[str, DeviceSample | None],
    workers: Sequence[Worker],
    scheduler_pids: Set[int] = frozenset(),
) -> Ledgers:
    """Split the memory of all GPUs.

    Workers join GPUs on uuid, and processes on pid (see `join_processes`). A worker's process on
    a GPU that its record does not name is `engine_unsplit` there.

    Args:
        samples: of all listed GPUs by uuid; None: it could not be read, and gets no ledger.
        workers: all that are remembered, stale ones too: a process belongs to its engine also
            when its trace has fallen silent.
        scheduler_pids: engines' other processes, as the driver sees them.
    """
    here: dict[str, list[Worker]] = {uuid: [] for uuid in samples}
    reasons: Counter[LedgerReason] = Counter()
    for worker in workers:
        if worker.torch.uuid in here:
            here[worker.torch.uuid].append(worker)
        else:
            reasons["unknown_gpu"] += not worker.is_stale
    translated = {worker.host_pid for worker in workers if worker.host_pid is not None}
    translated.update(scheduler_pids)
    joins = {
        uuid: join_processes(_process_bytes(sample), here[uuid], translated)
        for uuid, sample in samples.items()
        if sample is not None
    }
    worker_pids = {
        worker.key: pid
        for join in joins.values()
        for pid, joined in join.workers.items()
        for worker in joined
    }
    engine_pids = translated.union(worker_pids.values())
    splits = {
        uuid: gpu_split(sample, joins[uuid], engine_pids)
        for uuid, sample in samples.items()
        if sample is not None
    }
    for split in splits.values():
        reasons.update(split.ledger.reasons)
    return Ledgers(
        by_uuid={uuid: split.ledger for uuid, split in splits.items()},
        parts_bytes={uuid: split.parts_bytes for uuid, split in splits.items()},
        reasons={reason: count for reason, count in reasons.items() if count},
        worker_pids=worker_pids,
        engine_pids=frozenset(engine_pids),
        unclear_pids=frozenset[int]().union(*(join.unclear_pids for join in joins.values())),
        serving_uuids=frozenset(
            uuid for uuid, join in joins.items() if _is_serving(join, here[uuid])
        ),
    )


def _process_bytes(sample: DeviceSample) -> dict[int, int | None]:
    return {process.pid: process.used_bytes for process in sample.processes or ()}


def _is_serving(join: ProcessJoin, here: Sequence[Worker]) -> bool:
    workers = here if join.unclear_pids else [w for joined in join.workers.values() for w in joined]
    return any(worker.is_serving for worker in workers)
