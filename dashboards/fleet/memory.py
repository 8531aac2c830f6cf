"""Row "Where the fleet's memory is": bytes by owner, and what torch's allocators hold back."""

from dashboards.absence import NO_LEDGER, NO_TORCH
from dashboards.graphs import timeseries
from dashboards.ledger import LEDGER_COLOURS
from dashboards.queries import FLEET, recorded, target

MEMORY = [
    timeseries(
        "Memory by owner",
        "Every byte of all GPUs by owner; the stack is as high as all memory together. Much "
        "kv_cached and kv_free with short queues: the fleet has room. Much other_processes: GPUs "
        "are shared.",
        target(
            f"sum by (owner) ({recorded('job_owner:gpu_memory_ledger_bytes:sum', FLEET)})",
            "{{owner}}",
        ),
        unit="decbytes",
        no_value=NO_LEDGER,
        height=10,
        is_stacked=True,
        overrides=LEDGER_COLOURS,
    ),
    timeseries(
        "Total, used, and used for requests",
        "Effectively used leaves out cached and free KV blocks and allocator slack; it is there "
        "for nodes whose engines are all told apart.",
        target(recorded("job:gpu_memory_total_bytes:sum", FLEET), "{{job}} total"),
        target(recorded("job:gpu_memory_used_bytes:sum", FLEET), "{{job}} used"),
        target(
            recorded("job:gpu_memory_effective_used_bytes:sum", FLEET), "{{job}} effectively used"
        ),
        unit="decbytes",
        no_value=NO_LEDGER,
        height=10,
    ),
    timeseries(
        "Allocator gap / reserved",
        "What torch's allocators hold and give to no tensor, as a share of what they reserved, "
        "over all workers. A gap is normal; it is a finding only with retries, endless growth or "
        "a margin below 0.",
        target(recorded("job:vllm_torch_fragmentation_per_reserved:ratio", FLEET), "{{job}}"),
        unit="percentunit",
        no_value=NO_TORCH,
        width=8,
    ),
    timeseries(
        "Largest allocator gap",
        "Of one worker. 1 to 3 GB are common in health.",
        target(recorded("job:vllm_torch_fragmentation_bytes:max", FLEET), "{{job}}"),
        unit="decbytes",
        no_value=NO_TORCH,
        width=8,
    ),
    timeseries(
        "Least out-of-memory margin over time",
        "Of one worker. Below 0 its highest demand so far would not fit again.",
        target(recorded("job:vllm_torch_oom_margin_bytes:min", FLEET), "{{job}}"),
        unit="decbytes",
        no_value=NO_TORCH,
        width=8,
        extent=(None, None),
    ),
]
