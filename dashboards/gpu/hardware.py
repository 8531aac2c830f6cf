"""Row "Bandwidth, power, throttling": what the GPU is able to do."""

from dashboards.absence import NO_GPM, NO_GPU, NO_THROTTLE
from dashboards.graphs import timeseries
from dashboards.panels import PLAIN
from dashboards.queries import BY_GPU, GPU, GPU_LEGEND, WINDOW, gauge, target

HELD_BACK = 'reason!~"gpu_idle|applications_clocks_setting|display_clock_setting|sync_boost"'


HARDWARE = [
    timeseries(
        "Memory bandwidth",
        "Bandwidth of device memory that was used, of the most that it has. Decoding is bound by "
        "it: 0.8 and more at full load is good, and a sign that more requests at once will not "
        "give more tokens.",
        target(gauge("gpu_dram_bandwidth_utilization_ratio", GPU, BY_GPU), GPU_LEGEND),
        unit="percentunit",
        no_value=NO_GPM,
        extent=(0, 1),
    ),
    timeseries(
        "Multiprocessors and tensor cores",
        "Streaming multiprocessors that were busy, and the share of time in which tensor cores "
        "worked. Prompts use them; while decoding both are low in a healthy server.",
        target(gauge("gpu_sm_utilization_ratio", GPU, BY_GPU), f"{GPU_LEGEND} multiprocessors"),
        target(gauge("gpu_tensor_utilization_ratio", GPU, BY_GPU), f"{GPU_LEGEND} tensor cores"),
        unit="percentunit",
        no_value=NO_GPM,
        extent=(0, 1),
    ),
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
