"""Families about GPUs and the processes on them, as NVML tells; knows no engines."""

from collections.abc import Iterator

from exporter.records.device import DeviceSample, ProcessMemory
from exporter.records.view import DeviceView, GpuHolderView, View
from exporter.views.metrics.family import LabelValues, Subject
from exporter.views.metrics.scope import Scope


def device_label(index: int) -> str:
    """The value of the label `device` for NVML's index of a GPU."""
    return f"cuda:{index}"


def _gpus(view: View) -> Iterator[tuple[LabelValues, DeviceView]]:
    for gpu in view.devices:
        yield (device_label(gpu.facts.index), gpu.facts.uuid), gpu


def _processes(view: View) -> Iterator[tuple[LabelValues, ProcessMemory]]:
    for values, sample in GPU_SAMPLES.members(view):
        for process in sample.processes or ():
            yield (*values, str(process.pid), process.name or ""), process


def _holders(view: View) -> Iterator[tuple[LabelValues, GpuHolderView]]:
    for seen in view.gpu_holders:
        device = "" if seen.device is None else device_label(seen.device)
        holder = seen.holder
        yield (device, holder.uuid, holder.namespace, holder.pod, holder.container), seen


def _process_bytes(sample: DeviceSample) -> int | None:
    if sample.processes is None:
        return None
    used = [process.used_bytes for process in sample.processes]
    known = [used_bytes for used_bytes in used if used_bytes is not None]
    return sum(known) if len(known) == len(used) else None


GPUS = Scope(("device", "uuid"), _gpus)
GPU_SAMPLES = GPUS.part(lambda gpu: gpu.sample)
GPU_MEMORY = GPU_SAMPLES.part(lambda sample: sample.memory)
UNIFIED_SAMPLES = GPU_SAMPLES.part(lambda sample: sample if sample.unified_memory else None)
UNIFIED_MEMORY = GPU_SAMPLES.part(lambda sample: sample.unified_memory)
DETAILS = GPUS.part(lambda gpu: gpu.detail)
USED_WINDOWS = GPUS.part(lambda gpu: gpu.used_window_bytes)
PRESSURE_WINDOWS = GPUS.part(lambda gpu: gpu.pressure_window)
EFFECTIVE_PRESSURE_WINDOWS = GPUS.part(lambda gpu: gpu.effective_pressure_window)
PROCESSES = Scope((*GPUS.labels, "pid", "process_name"), _processes)
HOLDERS = Scope((*GPUS.labels, "namespace", "pod", "container"), _holders)

GPU = Subject(
    "GPU",
    (
        GPUS.info(
            "gpu_info",
            "Facts of the GPU as labels, value 1; memory_kind is dedicated or unified. Source: "
            "NVML.",
            {
                "name": lambda gpu: gpu.facts.name,
                "pci_bus_id": lambda gpu: gpu.facts.pci_bus_id,
                "driver": lambda gpu: gpu.facts.driver_version,
                "memory_kind": lambda gpu: gpu.facts.memory_kind,
            },
        ),
        GPUS.gauge(
            "gpu_up",
            "1 when NVML answers for this GPU, 0 when a GPU once seen is lost.",
            lambda gpu: gpu.is_up,
        ),
        HOLDERS.info(
            "gpu_pod_info",
            "A container to which Kubernetes gave this GPU or a share of it, value 1; uuid may be "
            "that of a MIG slice. device is empty when NVML does not list the uuid. Source: the "
            "kubelet's pod-resources API.",
            {},
        ),
        GPU_SAMPLES.gauge(
            "gpu_utilization_ratio",
            "Share of time in which a kernel ran. Source: NVML utilization rates, gpu; the "
            "denominator is NVML's own sample period.",
            lambda sample: sample.gpu_utilization_ratio,
        ),
        GPU_SAMPLES.gauge(
            "gpu_memory_controller_utilization_ratio",
            "Share of time in which device memory was read or written, not its fullness. Source: "
            "NVML utilization rates, memory; the denominator is NVML's own sample period.",
            lambda sample: sample.memory_controller_utilization_ratio,
        ),
        GPU_SAMPLES.gauge(
            "gpu_power_watts",
            "Power that the GPU draws. Source: NVML power usage.",
            lambda sample: sample.power_watts,
        ),
        DETAILS.gauge(
            "gpu_power_limit_watts",
            "Power at which the driver holds the GPU back. Source: NVML enforced power limit.",
            lambda detail: detail.power_limit_watts,
        ),
        DETAILS.counter(
            "gpu_energy_joules_total",
            "Energy that the GPU took since the driver was loaded. Source: NVML total energy "
            "consumption.",
            lambda detail: detail.counters.get("energy_joules"),
        ),
        GPU_SAMPLES.gauges(
            "gpu_temperature_celsius",
            "Temperature by sensor. Source: NVML.",
            "sensor",
            lambda sample: sample.temperatures_celsius or {},
        ),
        GPU_SAMPLES.gauges(
            "gpu_clock_hertz",
            "Present frequency by clock. Source: NVML clock info.",
            "clock",
            lambda sample: sample.clocks_hertz or {},
        ),
        GPU_SAMPLES.gauges(
            "gpu_throttle_active",
            "1 while this reason holds the clocks down, for each reason that the GPU supports. "
            "Source: NVML clocks event reasons.",
            "reason",
            lambda sample: sample.event_reasons or {},
        ),
    ),
)

GPU_MEMORY_USE = Subject(
    "GPU memory",
    (
        GPU_MEMORY.gauge(
            "gpu_memory_total_bytes",
            "Memory of the GPU. Source: NVML memory info.",
            lambda memory: memory.total_bytes,
        ),
        GPU_MEMORY.gauge(
            "gpu_memory_used_bytes",
            "Memory allocated on the GPU, by any process. Source: NVML memory info; where "
            "gpu_memory_reserved_bytes is absent, what the driver reserves is in it.",
            lambda memory: memory.used_bytes,
        ),
        GPU_MEMORY.gauge(
            "gpu_memory_free_bytes",
            "Memory that can still be allocated on the GPU. Source: NVML memory info.",
            lambda memory: memory.free_bytes,
        ),
        GPU_MEMORY.gauge(
            "gpu_memory_reserved_bytes",
            "Memory that driver and firmware keep for themselves. Source: NVML memory info v2; "
            "absent with v1.",
            lambda memory: memory.reserved_bytes,
        ),
        UNIFIED_MEMORY.gauge(
            "gpu_unified_memory_total_bytes",
            "Memory that the GPU shares with the CPU, where it has none of its own: the "
            "machine's. Source: /proc/meminfo, MemTotal.",
            lambda memory: memory.total_bytes,
        ),
        UNIFIED_MEMORY.gauge(
            "gpu_unified_memory_available_bytes",
            "Part of gpu_unified_memory_total_bytes that programs of GPU and CPU can still get; "
            "the rest is not what the GPU uses. Source: /proc/meminfo, MemAvailable.",
            lambda memory: memory.available_bytes,
        ),
        UNIFIED_SAMPLES.gauge(
            "gpu_unified_memory_process_used_bytes",
            "Memory of all processes on a GPU without memory of its own. Source: sum over NVML's "
            "process lists.",
            _process_bytes,
        ),
        USED_WINDOWS.gauge(
            "gpu_memory_used_window_min_bytes",
            "Lowest gpu_memory_used_bytes among the samples of the last 60 s.",
            lambda window: window.min,
        ),
        USED_WINDOWS.gauge(
            "gpu_memory_used_window_max_bytes",
            "Highest gpu_memory_used_bytes among the samples of the last 60 s.",
            lambda window: window.max,
        ),
        USED_WINDOWS.gauge(
            "gpu_memory_used_window_mean_bytes",
            "Mean of gpu_memory_used_bytes over the samples of the last 60 s.",
            lambda window: window.mean,
        ),
        GPUS.gauge(
            "gpu_memory_pressure_ratio",
            "Used memory / (total − memory reserved by the driver). Source: NVML memory info.",
            lambda gpu: gpu.pressure_ratio,
        ),
        PRESSURE_WINDOWS.gauge(
            "gpu_memory_pressure_window_max_ratio",
            "Highest gpu_memory_pressure_ratio among the samples of the last 60 s.",
            lambda window: window.max,
        ),
        GPUS.histogram(
            "gpu_memory_pressure_sample_ratio",
            "Every sample of gpu_memory_pressure_ratio since the exporter started.",
            lambda gpu: gpu.pressure_samples,
        ),
        GPUS.gauge(
            "gpu_memory_effective_pressure_ratio",
            "Highest active / usable KV blocks of the engines that hold memory on this GPU: what "
            "fills up while gpu_memory_used_bytes stands still. Source: trace; absent without.",
            lambda gpu: gpu.effective_pressure_ratio,
        ),
        EFFECTIVE_PRESSURE_WINDOWS.gauge(
            "gpu_memory_effective_pressure_window_max_ratio",
            "Highest gpu_memory_effective_pressure_ratio among the samples of the last 60 s.",
            lambda window: window.max,
        ),
        GPUS.histogram(
            "gpu_memory_effective_pressure_sample_ratio",
            "Every sample of gpu_memory_effective_pressure_ratio since the exporter started.",
            lambda gpu: gpu.effective_pressure_samples,
        ),
        GPU_SAMPLES.gauge(
            "gpu_processes",
            "Processes that hold a context on the GPU. Source: NVML process lists, compute and "
            "graphics, one for each pid.",
            lambda sample: None if sample.processes is None else len(sample.processes),
        ),
        PROCESSES.gauge(
            "gpu_process_memory_used_bytes",
            "Memory of one process on the GPU; pid as the driver sees it, process_name empty when "
            "unknown. Source: NVML process lists; absent where the driver does not say.",
            lambda process: process.used_bytes,
        ),
    ),
)
