"""Row "Processes and conflicts": who else is on the GPUs."""

from dashboards.absence import NO_GPU, NO_PROCESS
from dashboards.figures import table
from dashboards.graphs import timeseries
from dashboards.panels import named
from dashboards.queries import BY_GPU, GPU, GPU_LEGEND, increase, target

TENANTS = [
    table(
        "Processes on the GPUs",
        "Who holds memory on the selected GPUs now; pid as the driver sees it, a name only where "
        "it can be read. One process a worker is normal. Anything else shares the GPU with the "
        "engine.",
        target(
            "max by (instance, device, pid, process_name)"
            f" (gpu_process_memory_used_bytes{{{GPU}}})",
            is_instant=True,
            form="table",
        ),
        target(
            "max by (instance, device, pid, process_name)"
            f" (gpu_process_memory_used_bytes{{{GPU}}}"
            f" / on (job, instance, uuid) group_left () gpu_memory_total_bytes{{{GPU}}})",
            is_instant=True,
            form="table",
        ),
        unit="decbytes",
        no_value=NO_PROCESS,
        columns={
            "instance": "instance",
            "device": "GPU",
            "pid": "pid",
            "process_name": "name",
            "Value #A": "memory",
            "Value #B": "share of the GPU",
        },
        sort_by="memory",
        width=16,
        overrides=[named("share of the GPU", unit="percentunit", decimals=1)],
    ),
    timeseries(
        "Conflicts",
        "co_tenant: a process of no engine grew on an engine's GPU. pressure: the GPU was full "
        "while it did. margin: a worker's margin fell below 0. Normal is 0.",
        target(
            increase("gpu_memory_conflicts_total", GPU, f"{BY_GPU}, kind"),
            f"{GPU_LEGEND} {{{{kind}}}}",
        ),
        unit="short",
        no_value=NO_GPU,
        width=8,
        is_stepped=True,
    ),
]
