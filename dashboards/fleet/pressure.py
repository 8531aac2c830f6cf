"""Row "Pressure": how full the fleet's GPUs are, and how many of them."""

from dashboards.absence import NO_EFFECTIVE, NO_GPU
from dashboards.graphs import heatmap, timeseries
from dashboards.panels import FULLNESS
from dashboards.queries import FLEET, Json, recorded, target


def _levels(name: str) -> list[Json]:
    return [
        target(recorded(f"{name}:max", FLEET), "{{job}} fullest"),
        target(recorded(f"{name}:quantile", FLEET), "{{job}} quantile {{quantile}}"),
    ]


def _samples(name: str) -> Json:
    return target(f"sum by (le) ({recorded(name, FLEET)})", "{{le}}", form="heatmap")


PRESSURE = [
    timeseries(
        "Effective pressure",
        "Active / usable KV blocks over all GPUs, from the highest sample of each 60 s: the "
        "fullest GPU, the 0.95 quantile and the median. A high median means that the fleet is too "
        "small for its load; a high maximum alone means that load is spread unevenly.",
        *_levels("job:gpu_memory_effective_pressure"),
        unit="percentunit",
        no_value=NO_EFFECTIVE,
        width=8,
        steps=FULLNESS,
        extent=(0, 1),
    ),
    timeseries(
        "Device pressure",
        "Used / usable memory over all GPUs. Flat at gpu_memory_utilization (0.90 to 0.95) is "
        "normal, whatever the load.",
        *_levels("job:gpu_memory_pressure"),
        unit="percentunit",
        no_value=NO_GPU,
        width=8,
        extent=(0, 1),
    ),
    timeseries(
        "GPUs and nodes over a threshold",
        "How many GPUs, and nodes with such a GPU, had a KV pool above 0.9 and above 0.98 within "
        "60 s. A node that comes and goes is load; one that stays needs a bigger pool.",
        target(
            recorded("job:gpu_memory_effective_pressure_over:count", FLEET),
            "{{job}} GPUs over {{threshold}}",
        ),
        target(
            recorded("job:instance_memory_effective_pressure_over:count", FLEET),
            "{{job}} nodes over {{threshold}}",
        ),
        unit="short",
        no_value=NO_EFFECTIVE,
        width=8,
        is_stepped=True,
    ),
    heatmap(
        "Effective pressure, all samples",
        "How the half-second samples of all GPUs are spread, in samples per second. A band that "
        "touches 1 tells of exhausted pools, even of those that lasted less than a scrape.",
        _samples("job:gpu_memory_effective_pressure_sample_bucket:rate1m"),
        no_value=NO_EFFECTIVE,
        is_histogram=True,
        axis="effective pressure",
    ),
    heatmap(
        "Device pressure, all samples",
        "The same of used / usable memory. One narrow band is normal; a second one is a part of "
        "the fleet that is set up differently, or shared.",
        _samples("job:gpu_memory_pressure_sample_bucket:rate1m"),
        no_value=NO_GPU,
        is_histogram=True,
        axis="pressure",
    ),
]
