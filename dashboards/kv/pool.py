"""Row "KV pool": what its blocks are used for, and what happens when they run out."""

from dashboards.absence import NO_ENGINE, NO_TRACE, NOT_FILLING
from dashboards.graphs import timeseries
from dashboards.panels import FULLNESS, fixed, named
from dashboards.queries import (
    BY_ENGINE,
    ENGINE,
    ENGINE_LEGEND,
    gauge,
    increase,
    present,
    rate,
    target,
)

_STATE_COLOURS = {
    "active": "#e02f44",
    "cached": "#ffb357",
    "free": "#96d98d",
    "null": "#705da0",
}

POOL = [
    timeseries(
        "KV usage",
        "Active / usable KV blocks: the highest sample of each 60 s, and the present value. The "
        "lines at 0.9 and 0.98 are those of vLLM's own boards. A full pool is no fault by itself; "
        "with waiting requests or preemptions it is the bottleneck.",
        target(
            gauge("vllm_kv_cache_usage_window_max_ratio", ENGINE, BY_ENGINE),
            f"{ENGINE_LEGEND} highest of 60 s",
        ),
        target(
            gauge("vllm_kv_cache_usage_ratio", ENGINE, BY_ENGINE, over="last"),
            ENGINE_LEGEND,
        ),
        unit="percentunit",
        no_value=NO_ENGINE,
        steps=FULLNESS,
        extent=(0, 1),
    ),
    timeseries(
        "KV blocks by state",
        "active: a request refers to it. cached: no request does, but it holds a prefix and can be "
        "taken at any time. free: empty. null: vLLM's placeholder, never usable. A pool full of "
        "cached blocks is normal on a busy server; only active ones are a load.",
        target(
            present("vllm_kv_cache_blocks", ENGINE, f"{BY_ENGINE}, state"),
            f"{{{{state}}}} · {ENGINE_LEGEND}",
        ),
        unit="short",
        no_value=NO_ENGINE,
        is_stacked=True,
        overrides=[
            named(f"^{state} · .*$", is_pattern=True, color=fixed(colour))
            for state, colour in _STATE_COLOURS.items()
        ],
    ),
    timeseries(
        "Headroom",
        "Tokens that fit into the cached and free KV blocks, the least of each window.",
        target(
            gauge("vllm_kv_cache_headroom_tokens", ENGINE, BY_ENGINE, over="min"), ENGINE_LEGEND
        ),
        unit="short",
        no_value=NO_ENGINE,
        width=8,
    ),
    timeseries(
        "Time until the pool is full",
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
        "Requests running and waiting",
        "Running is bounded by max_num_seqs and by the pool. Waiting that stays above 0 while the "
        "pool is full means that blocks are short; while it is not, max_num_seqs is the bound.",
        target(
            gauge("vllm_engine_requests", ENGINE, f"{BY_ENGINE}, state"),
            f"{ENGINE_LEGEND} {{{{state}}}}",
        ),
        unit="short",
        no_value=NO_ENGINE,
        width=8,
    ),
    timeseries(
        "Preemptions",
        "Requests that lost their KV blocks to others in each window. Each is computed again from "
        "its prompt: latency and throughput pay. Normal is 0.",
        target(increase("vllm_engine_preemptions_total", ENGINE, BY_ENGINE), ENGINE_LEGEND),
        unit="short",
        no_value=NO_ENGINE,
        is_stepped=True,
    ),
    timeseries(
        "Evictions per second",
        "Cached KV blocks that lost their prefix to a new request. Normal once the pool has been "
        "used up; much of it beside a low hit ratio means that prefixes do not live long enough.",
        target(rate("vllm_kv_cache_evictions_total", ENGINE, BY_ENGINE), ENGINE_LEGEND),
        unit="ops",
        no_value=NO_TRACE,
    ),
]
