"""torch's CUDA allocator in one worker, polled from the writer's thread.

Reads counters only. Never imports torch, never initialises CUDA, never synchronises, empties a
cache or resets a peak. Polling during a CUDA graph capture is safe: none of these calls is one
that a capture forbids (tried on an H200 with a thread that called them all through captures).
"""

import sys
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from exporter.plugin.facts import Identity, as_count, read
from exporter.plugin.guard import Guard
from exporter.plugin.torch_memory import (
    Snapshot,
    has_pluggable_allocator,
    is_asleep,
    take_snapshot,
    tensor_bytes,
)
from exporter.plugin.trace_writer import FACTS_INTERVAL_S
from exporter.records.trace import EngineRecord, PluginStatus, TorchRecord, TraceRecord

SNAPSHOT_INTERVAL_S = 60.0
LARGEST_SNAPSHOT_SHARE = 0.001


class AllocatorProbe:
    """Watches one worker's device: a record every `interval_s`, and as soon as reserved changes.

    Args:
        worker: vLLM's worker, held weakly; its `device` is None until vLLM has set it.
        identity: what the records carry; its rank is the worker's.
        facts: the constant fields of its EngineRecord.
        interval_s: seconds between records.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        worker: object,
        identity: Identity,
        facts: dict[str, Any],
        interval_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._worker = weakref.ref(worker)
        self._identity = identity
        self._facts = facts
        self._interval_s = interval_s
        self._clock = clock
        self._ranks = _parallel_ranks(read(worker, "vllm_config.parallel_config"), identity.rank)
        self._guards = (Guard("torch"), Guard("tensors"), Guard("snapshot"))
        self._torch_guard, self._tensors_guard, self._snapshot_guard = self._guards
        self._is_paused = False
        self._is_foreign = False
        self._due_s = self._snapshot_due_s = 0.0
        self._reserved: int | None = None
        self._uuid: str | None = None
        self._snapshot: Snapshot | None = None
        self._weights: int | None = None
        self._kv_pool: int | None = None
        self._seconds = 0.0
        self._status_told: tuple[str, str | None] | None = None

    @property
    def is_gone(self) -> bool:
        """Whether the worker has been deleted."""
        return self._worker() is None

    def set_paused(self, is_paused: bool) -> None:
        """Stop or resume."""
        self._is_paused = is_paused

    def tick(self) -> Sequence[TraceRecord]:
        """One record when it is due; nothing before CUDA is initialised, or off CUDA."""
        guard, start = self._torch_guard, self._clock()
        worker, torch = self._worker(), sys.modules.get("torch")
        if worker is None or torch is None or not guard.is_on:
            return ()
        try:
            record = self._read(worker, torch, start)
            guard.in_a_row = 0
        except Exception as exc:
            guard.failed(type(exc).__name__)
            record = None
        self._seconds += self._clock() - start
        return () if record is None else (record,)

    def last(self) -> Sequence[TraceRecord]:
        """Nothing: CUDA may be going down."""
        return ()

    def facts(self, writer_errors: int, dropped_records: int) -> EngineRecord:
        """Facts and health of this worker's probe."""
        status, reason = self._status()
        return EngineRecord(
            **self._identity.header(FACTS_INTERVAL_S),
            **self._facts,
            role=self._identity.role,
            rank=self._identity.rank,
            start_unix_ns=self._identity.start_unix_ns,
            status=status,
            reason=reason,
            capabilities={g.name: g.is_on and not self._is_foreign for g in self._guards},
            errors=writer_errors + sum(guard.errors for guard in self._guards),
            dropped_records=dropped_records,
            plugin_seconds=round(self._seconds, 6),
        )

    def take_status_change(self) -> bool:
        """True once after status or reason have changed."""
        status = self._status()
        has_changed = status != self._status_told
        self._status_told = status
        return has_changed

    def _status(self) -> tuple[PluginStatus, str | None]:
        if self._is_foreign:
            return "unsupported", "cuda_unavailable"
        if self._is_paused:
            return "degraded", "paused"
        reasons = "; ".join(guard.reason for guard in self._guards if guard.reason)
        if not self._torch_guard.is_on:
            return "unsupported", reasons
        return ("degraded", reasons) if reasons else ("active", None)

    def _read(self, worker: object, torch: ModuleType, now: float) -> TorchRecord | None:
        device = read(worker, "device")
        if device is None:
            return None
        self._is_foreign = read(device, "type") != "cuda"
        index = as_count(read(device, "index"))
        if self._is_foreign or index is None or not torch.cuda.is_initialized():
            return None
        stats = torch.cuda.memory.memory_stats_as_nested_dict(index)
        reserved = _bytes(stats, "reserved_bytes", "current")
        if now < self._due_s and reserved == self._reserved:
            return None
        self._due_s, self._reserved = now + self._interval_s, reserved
        if self._uuid is None:
            self._uuid = _gpu_uuid(torch.cuda.get_device_properties(index))
        self._read_tensors(worker, index)
        self._read_snapshot(torch, index, now)
        free, total = torch.cuda.mem_get_info(index)
        is_pluggable = has_pluggable_allocator(worker, torch)
        snapshot = self._snapshot
        graphs = None if is_pluggable else snapshot
        return TorchRecord(
            **self._identity.header(self._interval_s),
            **self._ranks,
            rank=self._identity.rank or 0,
            uuid=self._uuid,
            allocated_bytes=_bytes(stats, "allocated_bytes", "current"),
            allocated_peak_bytes=_bytes(stats, "allocated_bytes", "peak"),
            reserved_bytes=reserved,
            active_bytes=_bytes(stats, "active_bytes", "current"),
            inactive_split_bytes=_bytes(stats, "inactive_split_bytes", "current"),
            alloc_retries=as_count(stats.get("num_alloc_retries")),
            ooms=as_count(stats.get("num_ooms")),
            device_free_bytes=as_count(free),
            device_total_bytes=as_count(total),
            weights_bytes=self._weights,
            kv_pool_bytes=self._kv_pool,
            graph_pool_bytes=graphs.private_pools if graphs else None,
            graph_pool_allocated_bytes=graphs.private_pools_allocated if graphs else None,
            largest_free_block_bytes=snapshot.largest_free_block if snapshot else None,
            is_asleep=is_asleep(worker),
            has_pluggable_allocator=is_pluggable,
        )

    def _read_tensors(self, worker: object, index: int) -> None:
        """Once, as soon as the KV tensors are there: then the weights have been loaded, too."""
        caches = read(worker, "model_runner.kv_caches")
        if self._kv_pool is not None or not self._tensors_guard.is_on or not caches:
            return
        try:
            model: Any = read(worker, "model_runner.model")
            weights = [*model.parameters(), *model.buffers()]
            self._weights = tensor_bytes(weights, index)
            self._kv_pool = tensor_bytes(list(caches), index)  # type: ignore[call-overload]
        except Exception as exc:
            self._tensors_guard.failed(type(exc).__name__)

    def _read_snapshot(self, torch: ModuleType, index: int, now: float) -> None:
        """At most once a minute, and not before the KV pool exists."""
        if now < self._snapshot_due_s or self._kv_pool is None or not self._snapshot_guard.is_on:
            return
        try:
            self._snapshot = take_snapshot(torch, index)
            self._snapshot_guard.in_a_row = 0
        except Exception as exc:
            self._snapshot_guard.failed(type(exc).__name__)
        cost_s = self._clock() - now
        self._snapshot_due_s = now + max(SNAPSHOT_INTERVAL_S, cost_s / LARGEST_SNAPSHOT_SHARE)


def _bytes(stats: Mapping[str, Any], name: str, kind: str) -> int | None:
    """`stats[name]["all"][kind]`. Source: torch.cuda.memory_stats, `<name>.all.<kind>`."""
    return as_count(stats.get(name, {}).get("all", {}).get(kind))


def _gpu_uuid(properties: object) -> str | None:
    """NVML's spelling; torch leaves the prefix away. None when this torch has no uuid."""
    uuid = read(properties, "uuid")
    if uuid is None:
        return None
    text = str(uuid)
    return text if text.startswith(("GPU-", "MIG-")) else f"GPU-{text}"


def _parallel_ranks(config: object, rank: int | None) -> dict[str, Any]:
    """Tensor and pipeline rank from the worker's rank, where only these two kinds exist.

    vLLM counts ranks with the tensor rank fastest, then the pipeline rank.
    """
    tensor = as_count(read(config, "tensor_parallel_size"))
    pipeline = as_count(read(config, "pipeline_parallel_size"))
    context = as_count(read(config, "prefill_context_parallel_size"))
    if not tensor or not pipeline or rank is None or (context or 1) > 1:
        return {}
    return {"tp_rank": rank % tensor, "pp_rank": rank // tensor % pipeline}
