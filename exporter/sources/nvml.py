"""The NVML source: keeps the library open and reads all GPUs; knows no figure's meaning."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pynvml
from msgspec.structs import replace

from exporter.clock import Clock
from exporter.records.device import (
    Device,
    DeviceFacts,
    DeviceReading,
    DeviceSample,
    ProcessMemory,
)
from exporter.sources.nvml_calls import Call, CapabilityChanges, GpuCalls
from exporter.sources.nvml_layout import KERNEL_LIST, Layout, read_layout
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
from exporter.sources.nvml_mig import MigDevices
from exporter.sources.nvml_sample import GpuSampler
from exporter.sources.nvml_session import Handle, NvmlSession
from exporter.sources.process_names import ProcessNames
from exporter.sources.unified_memory import can_share_memory, read_unified_memory

_RETRY_LOST_S = 30.0  # a GPU that was reset only answers to handles of a new initialisation
_RETRY_LOST_MOST_S = 120.0
_GUESTS_LEAVE_WITHIN_S = 2.0
_LOOK_AROUND_S = 10.0  # for GPUs that came or changed places, and for MIG devices


class NvmlSource:
    """Reads every GPU of this machine through NVML.

    NVML is initialised by the first read and stays open until `close`. A GPU once seen stays in
    every reading, by its UUID; one that is lost has no sample there and never keeps the others from
    theirs. Its index is the last one that was seen.

    A lost GPU is looked for again 30 s later, then 60, then every 120 s, by opening NVML anew: the
    others are read on until the guests of the session have let go, and right after.

    Args: interval_s: how often it will be read, in seconds; names: who names the processes;
        session: who else uses NVML; kernel_list: the driver's directory with an entry a GPU.
    """

    name = "nvml"

    def __init__(
        self,
        interval_s: float,
        clock: Clock,
        names: ProcessNames | None = None,
        session: NvmlSession | None = None,
        kernel_list: Path = KERNEL_LIST,
    ) -> None:
        self.interval_s = interval_s
        self._clock = clock
        self._session = session or NvmlSession()
        self._names = names or ProcessNames()
        self._errors: Counter[str] = Counter()
        self._is_open = False
        self._facts: dict[str, DeviceFacts] = {}  # by UUID, in the order of their indices
        self._samplers: dict[str, GpuSampler] = {}  # by UUID; none for a GPU without a handle
        self._migs: dict[str, MigDevices] = {}
        self._kernel_list = kernel_list
        self._layout: Layout | None = None
        self._look_around_at_s = 0.0
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
            elif now_s >= self._look_around_at_s:
                self._look_around(now_s)
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
            self._migs[facts.uuid] = MigDevices(handle, self._names, self._errors)
            calls = GpuCalls(handle, self._errors)
            self._samplers[facts.uuid] = GpuSampler(calls, self._names, self._errors)
        self._facts = dict(sorted(self._facts.items(), key=lambda item: item[1].index))
        if self._samplers:
            self._layout = None
            self._look_around(self._clock.monotonic())
            self._session.publish(handles)
            return
        if failure is not None and not (failure.value in GPU_GONE and self._facts):
            raise failure
        if not self._facts:
            self.close()
            raise no_gpu()

    def _look_around(self, now_s: float) -> None:
        """Find MIG devices; open NVML anew when GPUs came, went or changed places."""
        self._look_around_at_s = now_s + _LOOK_AROUND_S
        layout = read_layout(self._kernel_list)
        if self._layout is not None and layout.has_changed_since(self._layout):
            self._reopen_at_s = min(self._reopen_at_s, now_s)
        self._layout = layout
        for migs in self._migs.values():
            try:
                migs.find()
            except pynvml.NVMLError as error:
                if error.value in DRIVER_GONE:
                    raise  # a lost GPU is told of when it is sampled

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
                samples[uuid] = self._sample(uuid, now_s)
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
            {row.pid for sample in samples.values() if sample for row in _processes(sample)}
        )
        return samples

    def _sample(self, uuid: str, now_s: float) -> DeviceSample:
        sampler = self._samplers[uuid]
        sample = sampler.sample(now_s)
        mig = self._migs[uuid].sample(now_s)
        if mig:
            sample = replace(sample, mig=mig)
        if sampler.calls.memory_v1.is_supported is False and can_share_memory(
            self._facts[uuid].name
        ):
            self._facts[uuid] = replace(self._facts[uuid], memory_kind="unified")
            sample = replace(sample, unified_memory=read_unified_memory())
        return sample

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
        self._migs.clear()
        self._reopen_at_s = math.inf


def _processes(sample: DeviceSample) -> Iterator[ProcessMemory]:
    yield from sample.processes or ()
    for device in sample.mig:
        yield from device.processes or ()


def _pci_bus_id(handle: Handle) -> str:
    bus_id: str = pynvml.nvmlDeviceGetPciInfo(handle).busId
    return bus_id
