"""Where MIG devices are, for what is joined on UUIDs: figures of engines, ledgers of samples."""

from collections.abc import Mapping
from typing import TypeVar

from exporter.records.device import DeviceReading, DeviceSample

Figure = TypeVar("Figure")


class MigPlaces:
    """Which GPU each MIG device of the newest reading is on.

    `uuids`: a MIG device's UUID as CUDA may tell it (torch leaves the prefix away, and what is
    without one is taken for a GPU's) → NVML's.
    """

    def __init__(self) -> None:
        self._gpus: dict[str, str] = {}
        self.uuids: dict[str, str] = {}

    def observe(self, reading: DeviceReading) -> None:
        """Take one reading; a GPU that could not be read keeps its MIG devices."""
        for device in reading.devices:
            if device.sample is None or (not device.sample.mig and not self._gpus):
                continue
            uuid = device.facts.uuid
            others = {mig: gpu for mig, gpu in self._gpus.items() if gpu != uuid}
            self._gpus = others | {mig.uuid: uuid for mig in device.sample.mig}
        self.uuids = {f"GPU-{uuid.removeprefix('MIG-')}": uuid for uuid in self._gpus}

    def with_devices(self, by_gpu: Mapping[str, Figure]) -> dict[str, Figure]:
        """What is known of GPUs, by UUID, also of the MIG devices on them."""
        here = {mig: by_gpu[gpu] for mig, gpu in self._gpus.items() if gpu in by_gpu}
        return {**by_gpu, **here}

    def highest(self, by_uuid: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
        """Figures by UUID, those of MIG devices also as their GPU's: of each the highest."""
        highest = dict(by_uuid)
        for mig, gpu in self._gpus.items():
            if mig in by_uuid:
                now, peak = highest.get(gpu, (0.0, 0.0))
                highest[gpu] = max(now, by_uuid[mig][0]), max(peak, by_uuid[mig][1])
        return highest


def samples_of(reading: DeviceReading) -> dict[str, DeviceSample | None]:
    """Samples of GPUs and of MIG devices, by UUID: each has memory that engines can be on."""
    samples: dict[str, DeviceSample | None] = {}
    for device in reading.devices:
        samples[device.facts.uuid] = device.sample
        for mig in device.sample.mig if device.sample else ():
            samples[mig.uuid] = (
                DeviceSample(
                    memory=mig.memory, processes=mig.processes, is_coherent=mig.is_coherent
                )
                if mig.is_up
                else None
            )
    return samples
