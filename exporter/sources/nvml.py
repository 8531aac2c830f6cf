"""The NVML source: keeps the library open and reads all GPUs; knows no figure's meaning."""

import math
from collections import Counter
from collections.abc import Mapping

import pynvml

from exporter.clock import Clock
from exporter.records.device import Device, DeviceFacts, DeviceReading, DeviceSample
from exporter.sources.nvml_calls import Call, CapabilityChanges, GpuCalls
from exporter.sources.nvml_library import (
    DRIVER_GONE,
    GPU_GONE,
    error_reason,
    no_gpu,
    released,
    shut_down,
    unavailable,
    unload,
)
from exporter.sources.nvml_sample import GpuSampler
from exporter.sources.nvml_session import Handle, NvmlSession
from exporter.sources.process_names import ProcessNames

_RETRY_LOST_S = 30.0  # a GPU that was reset only answers to handles of a new initialisation
_RETRY_LOST_MOST_S = 120.0
_GUESTS_LEAVE_WITHIN_S = 2.0


class NvmlSource:
    """Reads every GPU of this machine through NVML.

    NVML is initialised by the first read and stays open until `close`. A GPU once seen stays in
    every reading, by its UUID; one that is lost has no sample there and never keeps the others from
    theirs. Its index is the last one that was seen.

    A lost GPU is looked for again 30 s later, then 60, then every 120 s, by opening NVML anew: the
    others are read on until the guests of the session have let go, and right after.

    Args: interval_s: how often it will be read, in seconds; names: who names the processes;
        session: who else uses NVML.
    """

    name = "nvml"

    def __init__(
        self,
        interval_s: float,
        clock: Clock,
        names: ProcessNames | None = None,
        session: NvmlSession | None = None,
    ) -> None:
        self.interval_s = interval_s
        self._clock = clock
        self._session = session or NvmlSession()
        self._names = names or ProcessNames()
        self._errors: Counter[str] = Counter()
        self._is_open = False
        self._facts: dict[str, DeviceFacts] = {}  # by UUID, in the order of their indices
        self._samplers: dict[str, GpuSampler] = {}  # by UUID; none for a GPU without a handle
        self._capabilities = CapabilityChanges()
        self._must_unload = False
        self._reopen_at_s = math.inf
        self._retry_lost_s = _RETRY_LOST_S

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
        if self._session.is_released:
            self._close(None)
            raise released()
        try:
            if not self._is_open or self._is_time_to_reopen(now_s):
                self._open()
            ts_unix_ns = self._clock.unix_ns()
            samples = self._sample_all(now_s)
        except pynvml.NVMLError as error:
            self._close(error)
            raise unavailable(error) from error
        if now_s >= self._reopen_at_s:
            pass  # the guests are leaving: there is no way back
        elif None not in samples.values():
            self._reopen_at_s = math.inf
            self._retry_lost_s = _RETRY_LOST_S
        elif self._reopen_at_s == math.inf:
            self._reopen_at_s = now_s + self._retry_lost_s
            self._retry_lost_s = min(_RETRY_LOST_MOST_S, 2 * self._retry_lost_s)
        return DeviceReading(
            ts_unix_ns=ts_unix_ns,
            interval_s=self.interval_s,
            devices=tuple(
                Device(facts=facts, sample=samples[uuid]) for uuid, facts in self._facts.items()
            ),
            capabilities=self._capabilities.changed(
                sampler.calls.capabilities() for sampler in self._samplers.values()
            ),
        )

    def close(self) -> None:
        """Let go of the GPUs (nvmlShutdown); a later read opens them again."""
        self._close(None)

    def _is_time_to_reopen(self, now_s: float) -> bool:
        """Whether it is due and the guests have let go, or have had their time to."""
        if now_s < self._reopen_at_s:
            return False
        self._session.publish(None)
        return not (self._session.has_guests and now_s < self._reopen_at_s + _GUESTS_LEAVE_WITHIN_S)

    def _open(self) -> None:
        self._close(None)
        pynvml.nvmlInit()
        self._is_open = True
        driver_version = pynvml.nvmlSystemGetDriverVersion()
        handles: dict[str, Handle] = {}
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
            handles[facts.uuid] = handle
            calls = GpuCalls(handle, self._errors)
            self._samplers[facts.uuid] = GpuSampler(calls, self._names, self._errors)
        self._facts = dict(sorted(self._facts.items(), key=lambda item: item[1].index))
        if self._samplers:
            self._session.publish(handles)
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

    def _close(self, error: pynvml.NVMLError | None) -> None:
        self._session.publish(None)
        if self._is_open:
            shut_down()
        if error is not None and error.value == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
            self._must_unload = True
        if self._must_unload and not self._session.has_guests:
            unload()
            self._must_unload = False
        self._is_open = False
        self._samplers.clear()
        self._reopen_at_s = math.inf


def _pci_bus_id(handle: Handle) -> str:
    bus_id: str = pynvml.nvmlDeviceGetPciInfo(handle).busId
    return bus_id
