"""Families about who owns each GPU's memory, and conflicts over it."""

from exporter.views.metrics.family import Subject
from exporter.views.metrics.gpu import GPUS

LEDGERS = GPUS.part(lambda gpu: gpu.ledger)

LEDGER = Subject(
    "Memory ledger",
    (
        LEDGERS.gauges(
            "gpu_memory_ledger_bytes",
            "Memory by owner: a GPU's owners sum to gpu_memory_total_bytes exactly; what no source "
            "tells apart is in a coarser owner. Source: NVML memory info and process lists, trace.",
            "owner",
            lambda ledger: ledger.owners_bytes,
        ),
        LEDGERS.gauge(
            "gpu_memory_effective_used_bytes",
            "Used memory less what serves no request now: cached and free KV blocks, allocator "
            "slack. Source: NVML memory info, trace; absent unless all engines on the GPU are "
            "told apart.",
            lambda ledger: ledger.effective_used_bytes,
        ),
        GPUS.counters(
            "gpu_memory_conflicts_total",
            "Conflicts over memory by kind: co_tenant (a process of no engine grew), pressure "
            "(the GPU is full and such processes grew), margin (a worker's peak would not fit "
            "again). Source: NVML process lists, trace; from 0 when an engine first serves here.",
            "kind",
            lambda gpu: gpu.conflicts or {},
        ),
    ),
)
