"""Row "Room to the next failure": torch's allocator and the KV pool."""

from dashboards.absence import NO_ENGINE, NO_RANKS, NO_TORCH, NOT_FILLING
from dashboards.graphs import timeseries
from dashboards.panels import BELOW_ZERO_IS_BAD
from dashboards.queries import (
    BY_ENGINE,
    BY_WORKER,
    ENGINE,
    ENGINE_LEGEND,
    WORKER,
    WORKER_LEGEND,
    gauge,
    increase,
    target,
)

ROOM = [
    timeseries(
        "Allocator gap",
        "Reserved − allocated of torch's allocator. A large gap is normal (1 to 3 GB in healthy "
        "engines) and no finding by itself. It is one together with retries, with growth that "
        "does not end, or with a margin below 0.",
        target(
            gauge("vllm_torch_fragmentation_bytes", WORKER, BY_WORKER),
            WORKER_LEGEND,
        ),
        unit="decbytes",
        no_value=NO_TORCH,
        width=8,
    ),
    timeseries(
        "Allocator gap / reserved",
        "The gap's share of what torch reserved. Judge it with the panels beside it.",
        target(gauge("vllm_torch_fragmentation_ratio", WORKER, BY_WORKER), WORKER_LEGEND),
        unit="percentunit",
        no_value=NO_TORCH,
        width=8,
    ),
    timeseries(
        "Out-of-memory margin",
        "Room that a worker has left if its highest demand so far came again: gaps that torch can "
        "use, and free device memory, less that demand. Normal is well above 0.",
        target(
            gauge("vllm_torch_oom_margin_bytes", WORKER, BY_WORKER, over="min"),
            WORKER_LEGEND,
        ),
        unit="decbytes",
        no_value=NO_TORCH,
        width=8,
        steps=BELOW_ZERO_IS_BAD,
        extent=(None, None),
    ),
    timeseries(
        "Allocation retries and out-of-memory errors",
        "A retry: torch found no room, gave all its unused memory back and tried again; it stalls "
        "the engine for a moment. An error: that did not help either. Normal is 0 of both.",
        target(
            increase("vllm_torch_alloc_retries_total", WORKER, BY_WORKER),
            f"{WORKER_LEGEND} retries",
        ),
        target(increase("vllm_torch_ooms_total", WORKER, BY_WORKER), f"{WORKER_LEGEND} errors"),
        unit="short",
        no_value=NO_TORCH,
        width=8,
    ),
    timeseries(
        "Headroom in tokens",
        "Tokens that still fit into an engine's cached and free KV blocks, the least of each "
        "window. Compare it with the length of your requests.",
        target(
            gauge("vllm_kv_cache_headroom_tokens", ENGINE, BY_ENGINE, over="min"),
            ENGINE_LEGEND,
        ),
        unit="short",
        no_value=NO_ENGINE,
        width=8,
    ),
    timeseries(
        "Time until the KV pool is full",
        "At the present trend. Absent while the pool is not filling, which is the normal state.",
        target(
            gauge("vllm_kv_cache_exhaustion_seconds", ENGINE, BY_ENGINE, over="min"),
            ENGINE_LEGEND,
        ),
        unit="s",
        no_value=NOT_FILLING,
        width=8,
    ),
    timeseries(
        "Uneven ranks",
        "Largest − smallest over the workers of an engine (tensor parallel), by what it is of. "
        "Weights and kv_pool differ by little; free or other_processes far apart means that one "
        "GPU is shared, and the tightest rank sets the limit for all.",
        target(
            gauge("vllm_rank_imbalance_bytes", ENGINE, f"{BY_ENGINE}, owner", over="last"),
            f"{ENGINE_LEGEND} {{{{owner}}}}",
        ),
        unit="decbytes",
        no_value=NO_RANKS,
        width=24,
    ),
]
