"""One worker of an engine as the ledger sees it, and the split of its process's memory."""

from typing import NamedTuple

from msgspec import Struct

from exporter.records.ledger import LedgerReason, Owner
from exporter.records.trace import Blocks, EngineRecord, KvRecord, TorchRecord

STALE_INTERVALS = 2.0
"""A record takes part in a split until it is this many of its own intervals old."""

WorkerKey = tuple[str, str, int]
"""Replica, engine and rank under which a worker is shown."""


class Worker(Struct, frozen=True, kw_only=True):
    """A worker's newest allocator record with what its engine's scheduler says.

    Ages are in intervals of the record's own kind. `kv`: the engine's newest scheduler record,
    however old; None when there was never one. `facts`: the engine's; None when unknown.
    `host_pid`: the worker's pid as the driver sees it; None when it could not be translated.
    """

    replica: str
    engine: str
    torch: TorchRecord
    torch_age_intervals: float
    kv: KvRecord | None = None
    kv_age_intervals: float = 0.0
    facts: EngineRecord | None = None
    host_pid: int | None = None

    @property
    def key(self) -> WorkerKey:
        """What identifies this worker."""
        return self.replica, self.engine, self.torch.rank

    @property
    def is_stale(self) -> bool:
        """Whether its allocator record is too old to be used."""
        return self.torch_age_intervals > STALE_INTERVALS

    @property
    def is_serving(self) -> bool:
        """Whether both its records are young enough: the engine has started to serve."""
        return (
            not self.is_stale and self.kv is not None and self.kv_age_intervals <= STALE_INTERVALS
        )

    @property
    def hides_memory(self) -> bool:
        """Whether torch's reserved does not tell what the process holds."""
        return hiding(self.torch, self.facts) is not None


class ProcessSplit(NamedTuple):
    """Bytes of one process by owner; they sum to what the process holds.

    `reclaimable_bytes`: what of them serves no request now (cached and free KV blocks, slack); None
    when not all of that is known. `reason`: why nothing was told apart; None when it was.
    """

    owners_bytes: dict[Owner, int]
    reclaimable_bytes: int | None
    reason: LedgerReason | None


def hiding(torch: TorchRecord, facts: EngineRecord | None) -> LedgerReason | None:
    """Why torch's reserved does not tell what the process holds; None when it does."""
    if torch.is_asleep or (facts and facts.sleep_level):
        return "asleep"
    return "pluggable_allocator" if torch.has_pluggable_allocator else None


def split_worker(worker: Worker, process_bytes: int) -> ProcessSplit:
    """Who owns the `process_bytes` (≥ 0) that NVML says the worker's process holds.

    process = reserved + non_torch; reserved = allocated + gap; allocated = weights + KV blocks +
    tensors in graph pools + torch_other; gap = unused memory of graph pools + allocator_slack.
    Parts that no source gives stay in torch_other. Everything falls to `engine_unsplit` when a
    record is stale, the parts contradict each other, or reserved lies.
    """
    torch = worker.torch
    reason = _unusable(worker)
    if reason or torch.reserved_bytes is None or torch.allocated_bytes is None:
        return _unsplit(process_bytes, reason or "torch_unknown")
    kv = _kv_bytes(worker)
    if kv is None:
        return _unsplit(process_bytes, "contradictory")
    owners = dict(kv)
    if torch.weights_bytes is not None:
        owners["weights"] = torch.weights_bytes
    other_bytes = torch.allocated_bytes - sum(owners.values())
    slack_bytes = torch.reserved_bytes - torch.allocated_bytes
    pool = _graph_pool(torch, other_bytes, slack_bytes)
    if pool is not None:
        owners["graph_pool"] = pool.tensors_bytes + pool.unused_bytes
        other_bytes -= pool.tensors_bytes
        slack_bytes -= pool.unused_bytes
    owners["torch_other"] = other_bytes
    owners["allocator_slack"] = slack_bytes
    owners["non_torch"] = process_bytes - torch.reserved_bytes
    if min(owners.values()) < 0 or (pool is not None and pool.unused_bytes < 0):
        return _unsplit(process_bytes, "contradictory")
    if not kv:
        return ProcessSplit(owners, None, None)
    evictable = (owners.get(owner, 0) for owner in ("kv_cached", "kv_free", "kv_unsplit"))
    return ProcessSplit(owners, slack_bytes + sum(evictable), None)


class _GraphPool(NamedTuple):
    tensors_bytes: int
    unused_bytes: int


def _graph_pool(torch: TorchRecord, other_bytes: int, slack_bytes: int) -> _GraphPool | None:
    """Graph pools by use; None when not told.

    A record without `graph_pool_allocated_bytes` gives the pools' segments only. These count as
    given to tensors; where that cannot be but they fit into reserved, their use is not known.
    """
    pool_bytes, tensors_bytes = torch.graph_pool_bytes, torch.graph_pool_allocated_bytes
    if pool_bytes is None:
        return None
    if tensors_bytes is not None:
        return _GraphPool(tensors_bytes, pool_bytes - tensors_bytes)
    if other_bytes < pool_bytes <= other_bytes + slack_bytes:
        return None
    return _GraphPool(pool_bytes, 0)


def _unsplit(process_bytes: int, reason: LedgerReason) -> ProcessSplit:
    return ProcessSplit({"engine_unsplit": process_bytes}, None, reason)


def _unusable(worker: Worker) -> LedgerReason | None:
    is_kv_stale = worker.kv is not None and worker.kv_age_intervals > STALE_INTERVALS
    return "stale" if worker.is_stale or is_kv_stale else hiding(worker.torch, worker.facts)


def _kv_bytes(worker: Worker) -> dict[Owner, int] | None:
    """KV blocks by state × that rank's block bytes (KV tensor bytes / num_gpu_blocks).

    Empty when no source tells both; None when pool and engine disagree on how many blocks exist.
    """
    blocks = worker.kv.blocks if worker.kv else None
    pool_bytes = worker.torch.kv_pool_bytes
    if blocks is None or pool_bytes is None:
        return {}
    num_gpu_blocks = worker.facts.num_gpu_blocks if worker.facts else None
    if num_gpu_blocks is not None and num_gpu_blocks != blocks.total:
        return None
    return {
        owner: count * pool_bytes // blocks.total for owner, count in _block_counts(blocks).items()
    }


def _block_counts(blocks: Blocks) -> dict[Owner, int]:
    counts: dict[Owner, int] = {"kv_active": blocks.active, "kv_null": blocks.null}
    if blocks.cached is None:
        return {**counts, "kv_unsplit": blocks.num_free}
    return {**counts, "kv_cached": blocks.cached, "kv_free": blocks.num_free - blocks.cached}
