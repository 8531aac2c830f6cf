"""Families about torch's CUDA allocator in each worker."""

from collections.abc import Iterator

from exporter.records.view import RankView, SilentRankView, View
from exporter.views.metrics.engine import ENGINES
from exporter.views.metrics.family import LabelValues, Subject
from exporter.views.metrics.gpu import GPUS, device_label
from exporter.views.metrics.scope import Scope


def _ranks(view: View) -> Iterator[tuple[LabelValues, RankView]]:
    for rank in view.ranks:
        yield _labels(rank, rank.torch.uuid), rank


def _counted(view: View) -> Iterator[tuple[LabelValues, RankView | SilentRankView]]:
    yield from _ranks(view)
    for rank in view.silent_ranks:
        yield _labels(rank, rank.uuid), rank


def _labels(rank: RankView | SilentRankView, uuid: str | None) -> LabelValues:
    device = "" if rank.device is None else device_label(rank.device)
    return (rank.replica, rank.model_name, rank.engine, str(rank.rank), device, uuid or "")


RANKS = Scope((*ENGINES.labels, "rank", *GPUS.labels), _ranks)
# Counts outlive their worker, as those of engines do: a slow scrape would miss why it ended.
COUNTED_RANKS = Scope(RANKS.labels, _counted)
TORCH_RECORDS = RANKS.part(lambda rank: rank.torch)

TORCH_ALLOCATOR = Subject(
    "torch's allocator",
    (
        TORCH_RECORDS.gauge(
            "vllm_torch_allocated_bytes",
            "Memory given to tensors. Source: trace, torch memory_stats allocated_bytes.",
            lambda torch: torch.allocated_bytes,
        ),
        TORCH_RECORDS.gauge(
            "vllm_torch_reserved_bytes",
            "Memory that the allocator holds from the driver. Source: trace, torch memory_stats "
            "reserved_bytes.",
            lambda torch: torch.reserved_bytes,
        ),
        TORCH_RECORDS.gauge(
            "vllm_torch_active_bytes",
            "Memory in allocator blocks that are in use or wait for a stream. Source: trace, torch "
            "memory_stats active_bytes.",
            lambda torch: torch.active_bytes,
        ),
        TORCH_RECORDS.gauge(
            "vllm_torch_inactive_split_bytes",
            "Gaps in allocator segments that cannot go back to the driver. Source: trace, torch "
            "memory_stats inactive_split_bytes.",
            lambda torch: torch.inactive_split_bytes,
        ),
        RANKS.gauge(
            "vllm_torch_fragmentation_bytes",
            "Allocator gap: reserved − allocated. Large is normal; a finding only with a symptom. "
            "Source: trace, torch record.",
            lambda rank: rank.fragmentation_bytes,
        ),
        RANKS.gauge(
            "vllm_torch_fragmentation_ratio",
            "Allocator gap / reserved. Source: trace, torch record.",
            lambda rank: rank.fragmentation_ratio,
        ),
        COUNTED_RANKS.counter(
            "vllm_torch_alloc_retries_total",
            "Allocations that failed, and were tried again after flushing the allocator. Source: "
            "trace, torch memory_stats num_alloc_retries.",
            lambda rank: rank.alloc_retries,
        ),
        COUNTED_RANKS.counter(
            "vllm_torch_ooms_total",
            "Out-of-memory errors that torch raised. Source: trace, torch memory_stats num_ooms.",
            lambda rank: rank.ooms,
        ),
        TORCH_RECORDS.gauge(
            "vllm_torch_largest_free_block_bytes",
            "Largest allocator block that is free. Source: trace, torch memory_snapshot.",
            lambda torch: torch.largest_free_block_bytes,
        ),
        RANKS.gauge(
            "vllm_torch_oom_margin_bytes",
            "(allocator gap − inactive split) + device free − (allocated peak − allocated now); "
            "below 0 the peak would not fit again. Source: trace, torch record.",
            lambda rank: rank.oom_margin_bytes,
        ),
        TORCH_RECORDS.gauge(
            "vllm_torch_weights_bytes",
            "Memory of the model's weights. Source: trace, torch record.",
            lambda torch: torch.weights_bytes,
        ),
        TORCH_RECORDS.gauge(
            "vllm_torch_kv_pool_bytes",
            "Memory of the KV cache tensors. Source: trace, torch record.",
            lambda torch: torch.kv_pool_bytes,
        ),
        TORCH_RECORDS.gauge(
            "vllm_torch_graph_pool_bytes",
            "Memory in the pools of CUDA graphs. Source: trace, torch memory_snapshot.",
            lambda torch: torch.graph_pool_bytes,
        ),
        TORCH_RECORDS.gauge(
            "vllm_torch_device_free_bytes",
            "Free memory of the device as the worker sees it. Source: trace, torch mem_get_info.",
            lambda torch: torch.device_free_bytes,
        ),
        TORCH_RECORDS.gauge(
            "vllm_torch_device_total_bytes",
            "Memory of the device as the worker sees it. Source: trace, torch mem_get_info.",
            lambda torch: torch.device_total_bytes,
        ),
        ENGINES.gauges(
            "vllm_rank_imbalance_bytes",
            "Largest − smallest over the ranks of an engine: of the parts of their processes "
            "(weights, kv_pool, graph_pool, torch_other, allocator_slack, non_torch), of their "
            "allocators (torch_reserved, allocator_gap), of their GPUs (other_processes, free). "
            "Source: memory ledger, trace; absent for one rank, and unless each rank tells it.",
            "owner",
            lambda engine: engine.rank_imbalance_bytes or {},
        ),
    ),
)
