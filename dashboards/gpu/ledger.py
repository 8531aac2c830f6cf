"""Row "Where the memory went": every byte of a GPU by owner."""

from dashboards.absence import NO_GPU, NO_LEDGER, NO_MIG
from dashboards.figures import bargauge
from dashboards.graphs import timeseries
from dashboards.ledger import LEDGER_COLOURS
from dashboards.panels import NEARLY_ALL_TAKEN
from dashboards.queries import BY_GPU, GPU, GPU_LEGEND, gauge, present, target

BY_SLICE = f"{BY_GPU}, mig_profile, mig_uuid"

LEDGER = [
    timeseries(
        "Where the memory of $device went",
        "Every byte of the GPU by owner; the stack is as high as the GPU's memory. Weights, KV "
        "blocks and free memory are wanted. kv_active moves with load inside the fixed KV pool. "
        "Watch other_processes (somebody else is here) and allocator_slack (reserved by torch, "
        "given to no tensor). An owner ending in _unsplit stands for parts that no source tells "
        "apart. Select one instance: the same GPU of several would be stacked together.",
        target(
            present("gpu_memory_ledger_bytes", GPU, "instance, owner"), "{{owner}} · {{instance}}"
        ),
        unit="decbytes",
        no_value=NO_LEDGER,
        width=24,  # which Grafana shares among the GPUs
        height=10,
        is_stacked=True,
        overrides=LEDGER_COLOURS,
        repeat="device",
        repeatDirection="h",
        maxPerRow=2,
    ),
    bargauge(
        "Owners now, all selected GPUs",
        "The same ledger at this moment, summed over the selected GPUs.",
        target(
            f"sort_desc(sum by (owner) (gpu_memory_ledger_bytes{{{GPU}}}) > 0)",
            "{{owner}}",
            is_instant=True,
        ),
        unit="decbytes",
        no_value=NO_LEDGER,
        height=9,
        overrides=LEDGER_COLOURS,
    ),
    timeseries(
        "Used, and used for requests",
        "Used is what nvidia-smi shows. Effectively used leaves out cached and free KV blocks and "
        "allocator slack: memory that serves no request now. A wide space between the two is "
        "normal: the KV pool is taken at start and waits for load.",
        target(
            gauge("gpu_memory_used_window_max_bytes", GPU, BY_GPU), f"{GPU_LEGEND} used, highest"
        ),
        target(
            gauge("gpu_memory_effective_used_bytes", GPU, BY_GPU), f"{GPU_LEGEND} effectively used"
        ),
        unit="decbytes",
        no_value=NO_GPU,
        height=9,
    ),
    timeseries(
        "MIG devices, used",
        "Memory used on each slice of a divided GPU, of the slice's own. An engine on a slice is "
        "as full as its slice, whatever the GPU says.",
        target(
            f"{gauge('gpu_mig_memory_used_bytes', GPU, BY_SLICE)}"
            f" / {gauge('gpu_mig_memory_total_bytes', GPU, BY_SLICE)}",
            f"{GPU_LEGEND} {{{{mig_profile}}}} {{{{mig_uuid}}}}",
        ),
        unit="percentunit",
        no_value=NO_MIG,
        width=24,
        height=6,
        steps=NEARLY_ALL_TAKEN,
        extent=(0, 1),
    ),
]
