"""Row "Work": what the fleet does with its GPUs."""

from dashboards.absence import NO_ENGINE, NO_GPU, NO_LOOKUPS
from dashboards.graphs import timeseries
from dashboards.queries import FLEET, recorded, target

WORK = [
    timeseries(
        "Tokens per second over time",
        "Tokens that all schedulers gave to their models, over 1 m.",
        target(
            recorded("job:vllm_scheduled_generation_tokens:rate1m", FLEET), "{{job}} generation"
        ),
        target(recorded("job:vllm_scheduled_prompt_tokens:rate1m", FLEET), "{{job}} prompt"),
        unit="short",
        no_value=NO_ENGINE,
        width=8,
    ),
    timeseries(
        "GPU busy",
        "Mean share of time in which a kernel ran. Low beside waiting requests: engines wait for "
        "something other than the GPU.",
        target(recorded("job:gpu_utilization:avg", FLEET), "{{job}}"),
        unit="percentunit",
        no_value=NO_GPU,
        width=8,
        extent=(0, 1),
    ),
    timeseries(
        "Requests and preemptions",
        "Requests running and waiting in all schedulers, and preemptions per second.",
        target(recorded("job:vllm_engine_requests:sum", FLEET), "{{job}} {{state}}"),
        target(recorded("job:vllm_engine_preemptions:rate1m", FLEET), "{{job}} preemptions/s"),
        unit="short",
        no_value=NO_ENGINE,
        width=8,
    ),
    timeseries(
        "Prefix-cache hit ratio",
        "Tokens found / looked up over 5 m, from the sums of both counters.",
        target(recorded("job:vllm_kv_cache_hits_per_query:ratio_rate5m", FLEET), "{{job}}"),
        unit="percentunit",
        no_value=NO_LOOKUPS,
        extent=(0, 1),
    ),
    timeseries(
        "Conflicts",
        "By kind, in the last 10 minutes: co_tenant, pressure, margin. Normal is 0.",
        target(recorded("job:gpu_memory_conflicts:increase10m", FLEET), "{{job}} {{kind}}"),
        unit="short",
        no_value=NO_GPU,
        is_stepped=True,
    ),
]
