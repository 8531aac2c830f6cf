"""GPM: the GPU's own counters over windows of one second, on a thread of their own; off by default.

DCGM's profiling shares these counters with whoever else reads them, and both then disturb each
other.
"""

import math
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

import pynvml

from exporter.clock import Clock
from exporter.records.device_detail import DeviceProfile, ProfileReading
from exporter.sources.nvml_calls import Call, CapabilityChanges, supported_calls
from exporter.sources.nvml_library import UNSUPPORTED, error_reason
from exporter.sources.nvml_session import Guest, Handle, NvmlSession

WINDOW_S = 1.0
_SHORTEST_WINDOW_S = 0.2  # below 0.1 s NVML gives empty windows without an error (H200)
_BUSY_PERCENT = 50
_SUSPECT_AFTER = 3  # windows in a row
_MIB = 1 << 20

_RATIOS = {
    "dram_bandwidth_utilization_ratio": pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL,
    "sm_utilization_ratio": pynvml.NVML_GPM_METRIC_SM_UTIL,
    "sm_occupancy_ratio": pynvml.NVML_GPM_METRIC_SM_OCCUPANCY,
    "tensor_utilization_ratio": pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL,
}  # percent
_RATES = {
    "pcie_transmit_bytes_per_second": pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC,
    "pcie_receive_bytes_per_second": pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC,
    "nvlink_transmit_bytes_per_second": pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC,
    "nvlink_receive_bytes_per_second": pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC,
}  # MiB a second
_METRICS = {**_RATIOS, **_RATES}


class NvmlGpmSource:
    """Closes one window a second on every GPU that supports it and that `nvml` has opened."""

    name = "nvml_gpm"
    interval_s = WINDOW_S

    def __init__(self, session: NvmlSession, clock: Clock) -> None:
        self._errors: Counter[str] = Counter()
        self._guest = Guest(session, self._errors, self._forget)
        self._clock = clock
        self._windows: dict[str, GpmWindow] = {}
        self._capabilities = CapabilityChanges()

    @property
    def errors(self) -> Mapping[str, int]:
        """Failed calls by NVML error; windows as ``empty_window`` and ``suspect_zero``."""
        return self._errors

    def read(self) -> ProfileReading | None:
        """Close the windows; None: no GPU is open."""
        handles = self._guest.handles()
        if handles is None:
            return None
        ts_unix_ns, now_s = self._clock.unix_ns(), self._clock.monotonic()
        gpus: dict[str, DeviceProfile] = {}
        for uuid, handle in handles.items():
            if uuid not in self._windows:
                self._windows[uuid] = GpmWindow(handle, self._errors)
            try:
                profile = self._windows[uuid].close(now_s)
            except pynvml.NVMLError as error:
                if error.value in UNSUPPORTED:
                    self._windows[uuid].give_up()
                else:
                    self._errors[error_reason(error)] += 1
                continue
            if profile is not None:
                gpus[uuid] = profile
        return ProfileReading(
            ts_unix_ns=ts_unix_ns,
            interval_s=self.interval_s,
            gpus=gpus,
            capabilities=self._capabilities.changed(
                window.capabilities() for window in self._windows.values()
            ),
        )

    def close(self) -> None:
        """Let go of the samples and of NVML."""
        self._guest.leave()

    def _forget(self) -> None:
        for window in self._windows.values():
            window.free()
        self._windows.clear()


class GpmWindow:
    """The running window of one GPU. `errors` counts windows that were no use."""

    def __init__(self, handle: Handle, errors: Counter[str]) -> None:
        self._handle = handle
        self._errors = errors
        self._support = Call(errors, _is_supported, handle)
        self._utilization = Call(errors, _busy_percent, handle)
        self._samples: list[object] = []  # pynvml's nvmlGpmSample_t: begin and end
        self._began_s: float | None = None
        self._zeros = 0
        self._figures = pynvml.c_nvmlGpmMetricsGet_t()
        self._figures.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        self._figures.numMetrics = len(_METRICS)
        for place, metric_id in enumerate(_METRICS.values()):
            self._figures.metrics[place].metricId = metric_id

    def capabilities(self) -> dict[str, bool]:
        """As of `GpuCalls`."""
        return supported_calls({"gpm": self._support})

    def close(self, now_s: float) -> DeviceProfile | None:
        """End the window at `now_s` and begin the next one.

        None: GPM is not supported, this is the first window, or NVML has nothing to say of it.
        Raises: pynvml.NVMLError: the GPU is lost, may not be profiled, or a call failed.
        """
        if self._support.is_supported is None:
            self._support()
        if not self._support.is_supported:
            return None
        began_s, self._began_s = self._began_s, None
        if began_s is not None and now_s - began_s < _SHORTEST_WINDOW_S:
            self._began_s = began_s
            return None
        while len(self._samples) < 2:
            self._samples.append(pynvml.nvmlGpmSampleAlloc())
        begin, end = self._samples
        pynvml.nvmlGpmSampleGet(self._handle, end)
        self._samples = [end, begin]
        self._began_s = now_s
        if began_s is None:
            return None
        self._figures.sample1, self._figures.sample2 = begin, end
        pynvml.nvmlGpmMetricsGet(self._figures)
        return self._profile()

    def give_up(self) -> None:
        """Take the GPU for one without GPM: it says that it has it, and then has not (MIG)."""
        self._support.is_supported = False

    def free(self) -> None:
        """Give the samples back."""
        for sample in self._samples:
            with suppress(pynvml.NVMLError):
                pynvml.nvmlGpmSampleFree(sample)
        self._samples = []

    def _profile(self) -> DeviceProfile | None:
        figures = {
            name: metric.value
            for name, metric in zip(_METRICS, self._figures.metrics, strict=False)
            if metric.nvmlReturn == pynvml.NVML_SUCCESS
        }
        dram = figures.get("dram_bandwidth_utilization_ratio")
        if dram is not None and math.isnan(dram):
            self._errors["empty_window"] += 1  # all the rest is 0 then, and means nothing
            return None
        if dram == 0 and figures.get("sm_utilization_ratio") == 0 and self._is_busy():
            self._zeros += 1
            if self._zeros >= _SUSPECT_AFTER:
                self._errors["suspect_zero"] += 1
            return None
        self._zeros = 0
        return DeviceProfile(
            **{
                name: figure / 100 if name in _RATIOS else figure * _MIB
                for name, figure in figures.items()
                if self._is_possible(name, figure)
            }
        )

    def _is_busy(self) -> bool:
        """Whether NVML says that kernels ran most of the time: they touch SMs and memory."""
        return (self._utilization() or 0) > _BUSY_PERCENT

    def _is_possible(self, name: str, figure: float) -> bool:
        if 0 <= figure <= (100 if name in _RATIOS else math.inf) and math.isfinite(figure):
            return True
        self._errors["invalid_profile"] += 1
        return False


def _is_supported(handle: Handle) -> bool:
    if not pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return True


def _busy_percent(handle: Handle) -> int:
    percent: int = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu
    return percent
