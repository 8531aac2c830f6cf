"""Rows of heatmaps: pressure of every GPU over time, and how its samples are spread."""

from dashboards.absence import NO_EFFECTIVE, NO_GPU
from dashboards.graphs import heatmap
from dashboards.queries import BY_GPU, GPU, gauge, gpu_rows, increase, target

COLOURS_TOLD = "In the light theme the scale is turned over: dark is high there."


PRESSURE = [
    heatmap(
        "Device pressure, GPU by GPU",
        "Used / usable memory as NVML sees it, one row a GPU. Each cell is the highest sample of "
        "60 s, so a spike between two scrapes shows. Even rows at 0.90 to 0.95 are a healthy vLLM "
        "server; a row that turns brighter has a new tenant. A missing stretch is a GPU that did "
        f"not answer. {COLOURS_TOLD}",
        target(
            gpu_rows(gauge("gpu_memory_pressure_window_max_ratio", GPU, BY_GPU)),
            "{{gpu}}",
        ),
        no_value=NO_GPU,
    ),
    heatmap(
        "Effective pressure, GPU by GPU",
        "Active / usable KV blocks of the fullest engine on each GPU, the highest sample of 60 s. "
        "This fills up and empties with load. Rows of one engine (tensor parallel) go together. "
        f"Bright for long means that requests wait or are preempted. {COLOURS_TOLD}",
        target(
            gpu_rows(gauge("gpu_memory_effective_pressure_window_max_ratio", GPU, BY_GPU)),
            "{{gpu}}",
        ),
        no_value=NO_EFFECTIVE,
    ),
]


SAMPLES = [
    heatmap(
        "Device pressure, all samples",
        "How the samples of every half second are spread, whatever the scrape interval is. One "
        "narrow band is normal; a second band is a GPU, or a time, that differs.",
        target(
            increase("gpu_memory_pressure_sample_ratio_bucket", GPU, "le"), "{{le}}", form="heatmap"
        ),
        no_value=NO_GPU,
        is_histogram=True,
        axis="pressure",
    ),
    heatmap(
        "Effective pressure, all samples",
        "How the samples of KV usage are spread. A band that touches 1 tells of an exhausted pool, "
        "even where it lasted less than a scrape.",
        target(
            increase("gpu_memory_effective_pressure_sample_ratio_bucket", GPU, "le"),
            "{{le}}",
            form="heatmap",
        ),
        no_value=NO_EFFECTIVE,
        is_histogram=True,
        axis="effective pressure",
    ),
]
