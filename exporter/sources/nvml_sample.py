"""Turns what NVML says about one GPU into its sample: coherent, validated, in base units."""

from collections import Counter
from typing import NamedTuple

from exporter.records.device import DeviceMemory, DeviceSample, ProcessMemory
from exporter.sources.nvml_calls import GpuCalls
from exporter.sources.nvml_validation import MemoryFigures, device_memory, process_memory
from exporter.sources.process_names import ProcessNames

# Above these a figure is a sentinel (NVML's 32-bit one is 2^32 − 1) or garbage, not hardware.
_MOST_PERCENT = 100
_MOST_CELSIUS = 200
_MOST_MILLIWATTS = 100_000_000
_MOST_MEGAHERTZ = 100_000

_NOTHING = DeviceSample()


class Occupancy(NamedTuple):
    """Who holds how much; fields as in `DeviceSample`."""

    memory: DeviceMemory | None
    processes: tuple[ProcessMemory, ...] | None
    is_coherent: bool


class GpuSampler:
    """Samples one GPU. `errors` counts figures that cannot be true, as ``invalid_…``."""

    def __init__(self, calls: GpuCalls, names: ProcessNames, errors: Counter[str]) -> None:
        self.calls = calls
        self._names = names
        self._errors = errors

    def sample(self, now_s: float) -> DeviceSample:
        """Read every figure that this GPU supports. `now_s`: monotonic seconds.

        Raises: pynvml.NVMLError: the GPU is lost, the driver went away, or every call failed.
        """
        calls = self.calls
        occupancy = self.occupancy(now_s)
        gpu_ratio, controller_ratio = self._utilization()
        milliwatts = self._valid(calls.power(), _MOST_MILLIWATTS, "invalid_power")
        sample = DeviceSample(
            memory=occupancy.memory,
            processes=occupancy.processes,
            is_coherent=occupancy.is_coherent,
            gpu_utilization_ratio=gpu_ratio,
            memory_controller_utilization_ratio=controller_ratio,
            power_watts=None if milliwatts is None else milliwatts / 1000,
            temperatures_celsius=self._temperatures(),
            clocks_hertz=self._clocks(),
            event_reasons=calls.active_event_reasons(),
        )
        failure = calls.failure()
        if failure is not None and sample == _NOTHING:
            raise failure
        return sample

    def occupancy(self, now_s: float) -> Occupancy:
        """Memory and processes of one moment, as far as NVML lets them be read together.

        Raises: pynvml.NVMLError: the GPU is lost or the driver went away.
        """
        calls = self.calls
        before = calls.memory()
        rows = calls.process_rows()
        after = calls.memory()
        if before != after:
            before = after
            rows = calls.process_rows()
            after = calls.memory()
        memory = self._memory(after)
        processes: tuple[ProcessMemory, ...] | None = None
        if rows is not None:
            by_pid = process_memory(
                rows,
                memory.total_bytes if memory else None,
                # memory that moved while the processes were read may be theirs before or after
                max(after[1], before[1]) if memory and before and after else None,
            )
            if by_pid is None:
                self._errors["invalid_processes"] += 1
            else:
                processes = tuple(
                    ProcessMemory(pid=pid, used_bytes=used, name=self._names.name_of(pid, now_s))
                    for pid, used in sorted(by_pid.items())
                )
        return Occupancy(memory, processes, before == after)

    def _memory(self, figures: MemoryFigures | None) -> DeviceMemory | None:
        if figures is None:
            return None
        memory = device_memory(figures)
        if memory is None:
            self._errors["invalid_memory"] += 1
        return memory

    def _utilization(self) -> tuple[float | None, float | None]:
        percents = self.calls.utilization()
        if percents is None:
            return None, None
        if max(percents) > _MOST_PERCENT:
            self._errors["invalid_utilization"] += 1
            return None, None
        return percents[0] / 100, percents[1] / 100

    def _temperatures(self) -> dict[str, float] | None:
        gpu = self._valid(self.calls.temperature_gpu(), _MOST_CELSIUS, "invalid_temperature")
        memory = self._valid(self.calls.temperature_memory(), _MOST_CELSIUS, "invalid_temperature")
        return _known({"gpu": gpu, "memory": memory}, 1)

    def _clocks(self) -> dict[str, float] | None:
        sm = self._valid(self.calls.clock_sm(), _MOST_MEGAHERTZ, "invalid_clock")
        memory = self._valid(self.calls.clock_memory(), _MOST_MEGAHERTZ, "invalid_clock")
        return _known({"sm": sm, "memory": memory}, 1_000_000)

    def _valid(self, figure: int | None, most: int, reason: str) -> int | None:
        if figure is None or figure <= most:
            return figure
        self._errors[reason] += 1
        return None


def _known(figures: dict[str, int | None], unit: int) -> dict[str, float] | None:
    known = {key: float(value * unit) for key, value in figures.items() if value is not None}
    return known or None
