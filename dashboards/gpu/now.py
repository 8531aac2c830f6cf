"""Row "Now": the worst figure of the selected GPUs."""

from dashboards.absence import NO_EFFECTIVE, NO_ENGINE, NO_GPU, NO_TORCH
from dashboards.figures import stat
from dashboards.panels import ANY_IS_BAD, BELOW_ZERO_IS_BAD, FULLNESS, NEARLY_ALL_TAKEN
from dashboards.queries import ENGINE, GPU, WINDOW, WORKER, target

NOW = [
    stat(
        "Highest effective pressure",
        "Active / usable KV blocks of the fullest engine on the selected GPUs, the highest of the "
        "last 60 s. This is what fills up in a vLLM server. Below 0.9 new requests find room; at "
        "0.98 and above they wait or push others out.",
        target(
            f"max(max_over_time(gpu_memory_effective_pressure_window_max_ratio{{{GPU}}}[{WINDOW}]))"
        ),
        unit="percentunit",
        no_value=NO_EFFECTIVE,
        steps=FULLNESS,
    ),
    stat(
        "Highest device pressure",
        "Used / usable memory of the fullest selected GPU, the highest of the last 60 s. vLLM "
        "takes its memory at start, so a flat 0.90 to 0.95 is normal, whatever the load. Above "
        "0.98 something else has come onto the GPU.",
        target(f"max(max_over_time(gpu_memory_pressure_window_max_ratio{{{GPU}}}[{WINDOW}]))"),
        unit="percentunit",
        no_value=NO_GPU,
        steps=NEARLY_ALL_TAKEN,
    ),
    stat(
        "Least out-of-memory margin",
        "What the tightest worker has left if its highest demand so far came again. Below 0 the "
        "next such batch can end in an out-of-memory error.",
        target(f"min(min_over_time(vllm_torch_oom_margin_bytes{{{WORKER}}}[{WINDOW}]))"),
        unit="decbytes",
        no_value=NO_TORCH,
        steps=BELOW_ZERO_IS_BAD,
    ),
    stat(
        "Least headroom",
        "Tokens that still fit into the KV pool of the fullest selected engine: its cached and "
        "free blocks. Near 0 requests wait or are preempted.",
        target(f"min(min_over_time(vllm_kv_cache_headroom_tokens{{{ENGINE}}}[{WINDOW}]))"),
        unit="short",
        no_value=NO_ENGINE,
    ),
    stat(
        "GPUs lost",
        "GPUs that NVML listed once and that no longer answer. Normal is 0.",
        target(f"sum(gpu_up{{{GPU}}} == bool 0)"),
        unit="short",
        no_value=NO_GPU,
        steps=ANY_IS_BAD,
    ),
    stat(
        "Conflicts in this time range",
        "How often another process grew on an engine's GPU, filled it, or a worker's margin fell "
        "below 0. Normal is 0. The red marks over the panels say when.",
        target(
            f"round(sum(increase(gpu_memory_conflicts_total{{{GPU}}}[$__range])))",
            is_instant=True,
        ),
        unit="short",
        no_value=NO_GPU,
        steps=ANY_IS_BAD,
        is_traced=False,
    ),
]
