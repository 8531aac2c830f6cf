"""Row "Bandwidth, power, throttling": what the GPU is able to do."""

from dashboards.absence import NO_GPU, NO_THROTTLE
from dashboards.graphs import timeseries
from dashboards.panels import PLAIN
from dashboards.queries import BY_GPU, GPU, GPU_LEGEND, WINDOW, gauge, target

HELD_BACK = 'reason!~"gpu_idle|applications_clocks_setting|display_clock_setting|sync_boost"'


HARDWARE = [
    timeseries(
        "Memory controller utilization",
        "Share of time in which device memory was read or written: bandwidth as the driver sees "
        "it, not fullness. Decoding reads all weights for each token, so a busy server is high.",
        target(gauge("gpu_memory_controller_utilization_ratio", GPU, BY_GPU), GPU_LEGEND),
        unit="percentunit",
        no_value=NO_GPU,
        width=8,
        extent=(0, 1),
    ),
    timeseries(
        "GPU utilization",
        "Share of time in which any kernel ran. 1 does not mean that the GPU is used well, but a "
        "fall towards 0 while requests run means that the engine waits for something.",
        target(gauge("gpu_utilization_ratio", GPU, BY_GPU), GPU_LEGEND),
        unit="percentunit",
        no_value=NO_GPU,
        width=8,
        extent=(0, 1),
    ),
    timeseries(
        "Power",
        "What each GPU draws, and the limit at which the driver holds it back. Near it under "
        "full load is common; a fall at the same load goes with throttling.",
        target(gauge("gpu_power_watts", GPU, BY_GPU), GPU_LEGEND),
        target(gauge("gpu_power_limit_watts", GPU, BY_GPU), f"{GPU_LEGEND} limit"),
        unit="watt",
        no_value=NO_GPU,
        width=8,
    ),
    timeseries(
        "GPUs held back, by reason",
        "How many of the selected GPUs run below their clocks, by the driver's reason. "
        "sw_power_cap under full load is common; thermal and hw reasons are for whoever looks "
        "after the machine.",
        target(
            f"sum by (instance, reason) (max_over_time(gpu_throttle_active{{{GPU},{HELD_BACK}}}"
            f"[{WINDOW}]))",
            "{{instance}} {{reason}}",
        ),
        unit="short",
        no_value=NO_THROTTLE,
        width=12,
        is_stepped=True,
    ),
    timeseries(
        "Temperature",
        "Of each sensor. What is too hot depends on the model; see the reasons beside it.",
        target(
            gauge("gpu_temperature_celsius", GPU, f"{BY_GPU}, sensor"),
            f"{GPU_LEGEND} {{{{sensor}}}}",
        ),
        unit="celsius",
        no_value=NO_GPU,
        width=12,
        steps=PLAIN,
    ),
]
