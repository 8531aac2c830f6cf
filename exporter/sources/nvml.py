"""The NVML source: keeps the library open and reads all GPUs; knows no figure's meaning."""

import math
from collections import Counter
from collections.abc import Mapping

import pynvml

from exporter.clock import Clock
from exporter.records.device import Device, DeviceFacts, DeviceReading, DeviceSample
from exporter.sources.nvml_calls import Call, GpuCalls, Handle
from exporter.sources.nvml_library import (
    DRIVER_GONE,
    GPU_GONE,
    error_reason,
    no_gpu,
    shut_down,
    unavailable,
    unload,
)
from exporter.sources.nvml_sample import GpuSampler
from exporter.sources.process_names import ProcessNames

_RETRY_LOST_S = 30.0  # a GPU that was reset only answers to handles of a new initialisation


class NvmlSource:
    """Reads every GPU of this machine through NVML.

    NVML is initialised by the first read and stays open until `close`. A GPU once seen stays in
    every reading, by its UUID; one that is lost has no sample there and never keeps the others from
    theirs. Its index is the last one that was seen.

    Args: interval_s: how often it will be read, in seconds; names: who names the processes.
    """

    name = "nvml"

    def __init__(self, interval_s: float, clock: Clock, names: ProcessNames | None = None) -> None:
        self.interval_s = interval_s
        self._clock = clock
        self._names = names or ProcessNames()
        self._errors: Counter[str] = Counter()
        self._is_open = False
        self._facts: dict[str, DeviceFacts] = {}  # by UUID, in the order of their indices
        self._samplers: dict[str, GpuSampler] = {}  # by UUID; none for a GPU without a handle
        self._capabilities: dict[str, bool] = {}
        self._retry_lost_at_s = math.inf

    @property
    def errors(self) -> Mapping[str, int]:
        """Failed calls and lost GPUs by NVML error, figures that cannot be as ``invalid_…``."""
        return self._errors

    def read(self) -> DeviceReading:
        """Read all GPUs once.

        Raises: SourceUnavailable: the driver is not there, shows no GPU, or fails on every GPU; the
            next read initialises NVML anew.
        """
        now_s = self._clock.monotonic()
        try:
            if not self._is_open or now_s >= self._retry_lost_at_s:
                self._open()
            ts_unix_ns = self._clock.unix_ns()
            samples = self._sample_all(now_s)
        except pynvml.NVMLError as error:
            self._close(error)
            raise unavailable(error) from error
        if None not in samples.values():
            self._retry_lost_at_s = math.inf
        elif self._retry_lost_at_s == math.inf:
            self._retry_lost_at_s = now_s + _RETRY_LOST_S
        return DeviceReading(
            ts_unix_ns=ts_unix_ns,
            interval_s=self.interval_s,
            devices=tuple(
                Device(facts=facts, sample=samples[uuid]) for uuid, facts in self._facts.items()
            ),
            capabilities=self._changed_capabilities(),
        )

    def close(self) -> None:
        """Let go of the GPUs (nvmlShutdown); a later read opens them again."""
        self._close(None)

    def _open(self) -> None:
        self._close(None)
        pynvml.nvmlInit()
        self._is_open = True
        driver_version = pynvml.nvmlSystemGetDriverVersion()
        failure: pynvml.NVMLError | None = None
        for index in range(pynvml.nvmlDeviceGetCount()):
            try:
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                facts = self._read_facts(handle, index, driver_version)
            except pynvml.NVMLError as error:
                if error.value in DRIVER_GONE:
                    raise
                self._errors[error_reason(error)] += 1
                failure = error
                continue
            self._facts[facts.uuid] = facts
            calls = GpuCalls(handle, self._errors)
            self._samplers[facts.uuid] = GpuSampler(calls, self._names, self._errors)
        self._facts = dict(sorted(self._facts.items(), key=lambda item: item[1].index))
        if self._samplers:
            return
        if failure is not None and not (failure.value in GPU_GONE and self._facts):
            raise failure
        if not self._facts:
            self.close()
            raise no_gpu()

    def _read_facts(self, handle: Handle, index: int, driver_version: str) -> DeviceFacts:
        return DeviceFacts(
            index=index,
            uuid=pynvml.nvmlDeviceGetUUID(handle),
            name=Call[str](self._errors, pynvml.nvmlDeviceGetName, handle)() or "",
            pci_bus_id=Call(self._errors, _pci_bus_id, handle)() or "",
            driver_version=driver_version,
        )

    def _sample_all(self, now_s: float) -> dict[str, DeviceSample | None]:
        samples: dict[str, DeviceSample | None] = {}
        failure: pynvml.NVMLError | None = None
        for uuid in self._facts:
            samples[uuid] = None
            if uuid not in self._samplers:
                continue
            try:
                samples[uuid] = self._samplers[uuid].sample(now_s)
            except pynvml.NVMLError as error:
                if error.value in DRIVER_GONE:
                    raise
                if error.value in GPU_GONE:
                    self._errors[error_reason(error)] += 1
                else:
                    failure = error
        if failure is not None and not any(samples.values()):
            raise failure
        self._names.keep_only(
            {row.pid for sample in samples.values() if sample for row in sample.processes or ()}
        )
        return samples

    def _changed_capabilities(self) -> dict[str, bool] | None:
        capabilities: dict[str, bool] = {}
        for sampler in self._samplers.values():
            for call, is_supported in sampler.calls.capabilities().items():
                capabilities[call] = capabilities.get(call, True) and is_supported
        if capabilities == self._capabilities:
            return None
        self._capabilities = capabilities
        return capabilities

    def _close(self, error: pynvml.NVMLError | None) -> None:
        if self._is_open:
            shut_down()
        if error is not None and error.value == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
            unload()
        self._is_open = False
        self._samplers.clear()
        self._retry_lost_at_s = math.inf


def _pci_bus_id(handle: Handle) -> str:
    bus_id: str = pynvml.nvmlDeviceGetPciInfo(handle).busId
    return bus_id
