"""Row "Work, GPU and memory on one clock": time, tokens/s, GPU % and memory, aligned."""

from dashboards.absence import NO_GPU, NO_LOOKUPS, NO_TRACE
from dashboards.graphs import timeseries
from dashboards.queries import (
    BY_ENGINE,
    BY_GPU,
    ENGINE,
    ENGINE_LEGEND,
    GPU,
    GPU_LEGEND,
    gauge,
    rate,
    target,
)

WORK = [
    timeseries(
        "Tokens per second",
        "Tokens that the scheduler gave to the model: prompts, and one or more for each running "
        "request. After a preemption a request's tokens are given again, so this is work, not "
        "what clients receive. Read the three panels down one crosshair.",
        target(
            rate("vllm_scheduled_generation_tokens_total", ENGINE, BY_ENGINE),
            f"{ENGINE_LEGEND} generation",
        ),
        target(
            rate("vllm_scheduled_prompt_tokens_total", ENGINE, BY_ENGINE), f"{ENGINE_LEGEND} prompt"
        ),
        unit="short",
        no_value=NO_TRACE,
        width=24,
        height=6,
    ),
    timeseries(
        "GPU busy",
        "Share of time in which a kernel ran. Tokens that fall while this stays high: the GPU does "
        "other work (prompts, a co-tenant). Both fall: the engine waits.",
        target(gauge("gpu_utilization_ratio", GPU, BY_GPU), GPU_LEGEND),
        unit="percentunit",
        no_value=NO_GPU,
        width=24,
        height=6,
        extent=(0, 1),
    ),
    timeseries(
        "GPU memory",
        "Used memory, the highest of each 60 s. Flat is normal: vLLM takes its memory at start. A "
        "step is another process, or torch's allocator growing with a larger batch.",
        target(gauge("gpu_memory_used_window_max_bytes", GPU, BY_GPU), GPU_LEGEND),
        unit="decbytes",
        no_value=NO_GPU,
        width=24,
        height=6,
    ),
]

PREFIX_CACHE = [
    timeseries(
        "Hit ratio",
        "Tokens found / looked up in the prefix cache over 60 s. Low is a finding only if prompts "
        "share prefixes. It moves with the mix of requests, also in health.",
        target(gauge("vllm_kv_cache_hit_ratio", ENGINE, BY_ENGINE, over="last"), ENGINE_LEGEND),
        unit="percentunit",
        no_value=NO_LOOKUPS,
        extent=(0, 1),
    ),
    timeseries(
        "Tokens looked up and found per second",
        "The two counters behind the ratio: a ratio of few look-ups says little.",
        target(
            rate("vllm_kv_cache_query_tokens_total", ENGINE, BY_ENGINE),
            f"{ENGINE_LEGEND} looked up",
        ),
        target(rate("vllm_kv_cache_hit_tokens_total", ENGINE, BY_ENGINE), f"{ENGINE_LEGEND} found"),
        unit="short",
        no_value=NO_LOOKUPS,
    ),
]
