"""The NVML calls of one GPU, each made until the driver says it has none; validates nothing."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

import pynvml

from exporter.sources.nvml_library import DRIVER_GONE, GPU_GONE, UNSUPPORTED, error_reason
from exporter.sources.nvml_session import Handle
from exporter.sources.nvml_validation import MemoryFigures, ProcessRow

Answer = TypeVar("Answer")

_BEYOND_ONE_CALL = DRIVER_GONE | GPU_GONE
_EVENT_REASONS = (
    (0x001, "gpu_idle"),
    (0x002, "applications_clocks_setting"),
    (0x004, "sw_power_cap"),
    (0x008, "hw_slowdown"),
    (0x010, "sync_boost"),
    (0x020, "sw_thermal_slowdown"),
    (0x040, "hw_thermal_slowdown"),
    (0x080, "hw_power_brake_slowdown"),
    (0x100, "display_clock_setting"),
    (0x200, "board_limit"),
    (0x400, "reliability"),
)  # nvmlClocksEventReason…: their bits, and their names in snake_case


class Call(Generic[Answer]):
    """One NVML call of one GPU.

    `is_supported`: None until NVML has answered once; once False, the call is never made again.
    `failure`: why the last call failed, None when it did not.
    """

    __slots__ = ("_arguments", "_errors", "_function", "failure", "is_supported")

    def __init__(
        self,
        errors: Counter[str],
        function: Callable[..., Answer],
        *arguments: Handle | int,
    ) -> None:
        self._errors = errors
        self._function = function
        self._arguments = arguments
        self.is_supported: bool | None = None
        self.failure: pynvml.NVMLError | None = None

    def __call__(self) -> Answer | None:
        """What NVML answers; None when it is unsupported, or failed this time and was counted.

        Raises: pynvml.NVMLError: the GPU is lost or the driver went away.
        """
        if self.is_supported is False:
            return None
        self.failure = None
        try:
            answer = self._function(*self._arguments)
        except pynvml.NVMLError as error:
            if error.value in _BEYOND_ONE_CALL:
                raise
            if error.value in UNSUPPORTED:
                self.is_supported = False
            else:
                self.failure = error.with_traceback(None)
                self._errors[error_reason(error)] += 1
            return None
        self.is_supported = True
        return answer


class GpuCalls:
    """All calls that are made of one GPU on every tick: microseconds each, none of them blocks.

    What they give is in NVML's units: bytes, percent, milliwatts, degrees Celsius, megahertz; None
    as for `Call`. `errors` counts calls that failed, by the NVML error.
    """

    def __init__(self, handle: Handle, errors: Counter[str]) -> None:
        self.memory_v2 = Call(errors, _memory_v2, handle)
        self.memory_v1 = Call(errors, _memory_v1, handle)
        self.processes = Call(errors, _compute_processes_v3, handle)
        self.processes_v2 = Call(errors, _compute_processes_v2, handle)
        self.graphics_processes = Call(errors, _graphics_processes_v3, handle)
        self.graphics_processes_v2 = Call(errors, _graphics_processes_v2, handle)
        self.utilization = Call(errors, _utilization, handle)
        self.power = Call[int](errors, pynvml.nvmlDeviceGetPowerUsage, handle)
        self.temperature_gpu = Call[int](
            errors, pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU
        )
        self.temperature_memory = Call(errors, _memory_temperature, handle)
        clock_info = pynvml.nvmlDeviceGetClockInfo
        self.clock_sm = Call[int](errors, clock_info, handle, pynvml.NVML_CLOCK_SM)
        self.clock_memory = Call[int](errors, clock_info, handle, pynvml.NVML_CLOCK_MEM)
        current, throttle = (
            pynvml.nvmlDeviceGetCurrentClocksEventReasons,
            pynvml.nvmlDeviceGetCurrentClocksThrottleReasons,
        )
        self.event_reasons = Call[int](errors, current, handle)
        self.throttle_reasons = Call[int](errors, throttle, handle)
        self._calls: dict[str, Call[Any]] = dict(vars(self))  # all of the above, by name
        self._supported_reasons = Call(errors, _supported_event_reasons, handle)
        self._reasons: tuple[tuple[int, str], ...] | None = None

    def capabilities(self) -> dict[str, bool]:
        """Short name of each call that NVML has answered on this GPU → whether it supports it."""
        return supported_calls(self._calls)

    def failure(self) -> pynvml.NVMLError | None:
        """Why the last call failed of some call that is failing now; None when none is."""
        return next((call.failure for call in self._calls.values() if call.failure), None)

    def memory(self) -> MemoryFigures | None:
        """nvmlDeviceGetMemoryInfo_v2, v1 where the driver lacks v2."""
        return _newest(self.memory_v2, self.memory_v1)

    def process_rows(self) -> list[ProcessRow] | None:
        """nvmlDeviceGetComputeRunningProcesses and …GraphicsRunningProcesses together.

        None also when one of the two lists failed: half a list would hide owners of memory.
        """
        compute = _newest(self.processes, self.processes_v2)
        graphics = _newest(self.graphics_processes, self.graphics_processes_v2)
        if self.processes.failure or self.processes_v2.failure:
            return None
        if self.graphics_processes.failure or self.graphics_processes_v2.failure:
            return None
        if compute is None or graphics is None:
            return compute if graphics is None else graphics
        return compute + graphics

    def active_event_reasons(self) -> dict[str, bool] | None:
        """Each clocks event reason that this GPU supports → whether it holds the clocks down now.

        nvmlDeviceGetCurrentClocksEventReasons, …ThrottleReasons where the driver lacks it.
        """
        if self._reasons is None:
            supported = self._supported_reasons()
            if supported is None:
                return None
            self._reasons = tuple(reason for reason in _EVENT_REASONS if supported & reason[0])
        active = _newest(self.event_reasons, self.throttle_reasons)
        if active is None:
            return None
        return {name: active & bit != 0 for bit, name in self._reasons}


class CapabilityChanges:
    """What calls all GPUs support together, told when it changes."""

    def __init__(self) -> None:
        self._told: dict[str, bool] = {}

    def changed(self, of_gpus: Iterable[Mapping[str, bool]]) -> dict[str, bool] | None:
        """Call → whether every GPU that has answered supports it; None when that is known."""
        together: dict[str, bool] = {}
        for capabilities in of_gpus:
            for call, is_supported in capabilities.items():
                together[call] = together.get(call, True) and is_supported
        if together == self._told:
            return None
        self._told = together
        return together


def supported_calls(calls: Mapping[str, Call[Any]]) -> dict[str, bool]:
    """Name of each call that NVML has answered → whether it is supported."""
    return {
        name: call.is_supported for name, call in calls.items() if call.is_supported is not None
    }


def _newest(newest: Call[Answer], older: Call[Answer]) -> Answer | None:
    answer = newest()
    return older() if newest.is_supported is False else answer


def _memory_v2(handle: Handle) -> MemoryFigures:
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    return memory.total, memory.used, memory.free, memory.reserved


def _memory_v1(handle: Handle) -> MemoryFigures:
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    return memory.total, memory.used, memory.free, None


def _compute_processes_v3(handle: Handle) -> list[ProcessRow]:
    return _rows(pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle))


def _compute_processes_v2(handle: Handle) -> list[ProcessRow]:
    return _rows(pynvml.nvmlDeviceGetComputeRunningProcesses_v2(handle))


def _graphics_processes_v3(handle: Handle) -> list[ProcessRow]:
    return _rows(pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3(handle))


def _graphics_processes_v2(handle: Handle) -> list[ProcessRow]:
    return _rows(pynvml.nvmlDeviceGetGraphicsRunningProcesses_v2(handle))


def _rows(listed: list[Any]) -> list[ProcessRow]:
    return [(row.pid, row.usedGpuMemory) for row in listed]


def _utilization(handle: Handle) -> tuple[int, int]:
    rates = pynvml.nvmlDeviceGetUtilizationRates(handle)
    return rates.gpu, rates.memory


def _memory_temperature(handle: Handle) -> int | None:
    field = pynvml.nvmlDeviceGetFieldValues(handle, [pynvml.NVML_FI_DEV_MEMORY_TEMP])[0]
    if field.nvmlReturn != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(field.nvmlReturn)
    return field.value.uiVal or None  # 0 comes from parts without such a sensor


def _supported_event_reasons(handle: Handle) -> int:
    try:
        reasons: int = pynvml.nvmlDeviceGetSupportedClocksEventReasons(handle)
    except pynvml.NVMLError_FunctionNotFound:
        reasons = pynvml.nvmlDeviceGetSupportedClocksThrottleReasons(handle)
    return reasons
