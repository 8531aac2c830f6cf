"""vLLM's own metrics that the boards ask, under the names that its versions give them.

Seen in 0.30.0 unless said. Some collectors turn the colon into an underscore; the boards do not ask
for those names.
"""

from collections.abc import Mapping

VLLM_LABELS = frozenset({"model_name", "engine"})

VLLM_NAMES: Mapping[str, tuple[str, ...]] = {
    "vllm:kv_cache_usage_perc": (),
    "vllm:gpu_cache_usage_perc": (),  # until 0.11
    "vllm:num_requests_running": (),
    "vllm:num_requests_waiting": (),
    "vllm:num_requests_waiting_by_reason": ("reason",),  # since 0.25 or earlier
    "vllm:num_preemptions_total": (),
}
"""Name → its labels beside `VLLM_LABELS`."""

VLLM_HISTOGRAMS = (
    "vllm:time_to_first_token_seconds",
    "vllm:inter_token_latency_seconds",
    "vllm:time_per_output_token_seconds",  # until inter_token_latency_seconds came
)
