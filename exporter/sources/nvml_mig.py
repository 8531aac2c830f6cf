"""The MIG devices of one GPU: finds them, and samples the memory of each; knows no other GPU."""

import math
from collections import Counter
from collections.abc import Iterator

import pynvml
from msgspec.structs import replace

from exporter.records.device import MigDevice
from exporter.sources.nvml_calls import Call, GpuCalls
from exporter.sources.nvml_library import DRIVER_GONE, GPU_GONE, error_reason
from exporter.sources.nvml_sample import GpuSampler
from exporter.sources.nvml_session import Handle
from exporter.sources.process_names import ProcessNames

_FIND_AGAIN_S = 1.0  # after one of them did not answer: GPUs are partitioned while we look


class MigDevices:
    """The MIG devices of one GPU as of the last `find`."""

    def __init__(self, handle: Handle, names: ProcessNames, errors: Counter[str]) -> None:
        self._handle = handle
        self._names = names
        self._errors = errors
        self._mode = Call(errors, _mig_mode, handle)
        self._samplers: dict[MigDevice, GpuSampler] = {}  # by what is known of it for good
        self._find_at_s = math.inf

    def find(self) -> None:
        """Look which there are (nvmlDeviceGetMigMode takes 0.2 ms: not on every tick).

        Raises: pynvml.NVMLError: the GPU is lost or the driver went away.
        """
        self._find_at_s = math.inf
        is_on = self._mode()
        if self._mode.failure is not None:
            return  # those that are known stay
        try:
            found = dict(self._listed()) if is_on else {}
        except pynvml.NVMLError as error:
            if error.value in DRIVER_GONE | GPU_GONE:
                raise
            self._errors[error_reason(error)] += 1
            return
        self._samplers = {
            device: self._sampler(found[device]) for device in sorted(found, key=_instance_ids)
        }

    def sample(self, now_s: float) -> tuple[MigDevice, ...]:
        """Each with its memory now; `now_s` is monotonic seconds.

        Raises: pynvml.NVMLError: the driver went away.
        """
        if now_s >= self._find_at_s:
            self.find()
        devices = []
        with_memory: set[int] = set()
        for device, sampler in self._samplers.items():
            is_first = device.gpu_instance_id not in with_memory
            with_memory.add(device.gpu_instance_id)
            devices.append(self._sampled(device, sampler, now_s, has_memory=is_first))
        if not all(device.is_up for device in devices) and self._find_at_s == math.inf:
            self._find_at_s = now_s + _FIND_AGAIN_S
        return tuple(devices)

    def _sampled(
        self, device: MigDevice, sampler: GpuSampler, now_s: float, *, has_memory: bool
    ) -> MigDevice:
        try:
            memory, processes, is_coherent = sampler.occupancy(now_s)
        except pynvml.NVMLError as error:
            if error.value in DRIVER_GONE:
                raise
            self._errors[error_reason(error)] += 1
            memory = processes = None
        if memory is None and processes is None:
            return replace(device, is_up=False)
        if not has_memory:
            return device
        return replace(device, memory=memory, processes=processes, is_coherent=is_coherent)

    def _listed(self) -> Iterator[tuple[MigDevice, Handle]]:
        for place in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(self._handle)):
            try:
                handle = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(self._handle, place)
                device = MigDevice(
                    uuid=pynvml.nvmlDeviceGetUUID(handle),
                    gpu_instance_id=pynvml.nvmlDeviceGetGpuInstanceId(handle),
                    compute_instance_id=pynvml.nvmlDeviceGetComputeInstanceId(handle),
                    profile=pynvml.nvmlDeviceGetName(handle).rpartition("MIG ")[2],
                )
            except pynvml.NVMLError_NotFound:
                continue  # this place is empty
            yield device, handle

    def _sampler(self, handle: Handle) -> GpuSampler:
        return GpuSampler(GpuCalls(handle, self._errors), self._names, self._errors)


def _instance_ids(device: MigDevice) -> tuple[int, int]:
    return device.gpu_instance_id, device.compute_instance_id


def _mig_mode(handle: Handle) -> bool:
    current, _pending = pynvml.nvmlDeviceGetMigMode(handle)
    return bool(current)
