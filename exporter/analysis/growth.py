"""How much each process on each GPU has grown since an engine began to serve there."""

from collections.abc import Mapping, Set

from msgspec import Struct

from exporter.records.device import DeviceMemory, DeviceSample, ProcessMemory


class GpuGrowth(Struct, frozen=True):
    """What is remembered of one GPU between readings.

    `is_watched`: an engine that serves holds memory here, or did and its process still lives.
    `memory`, `processes`: of the newest reading that listed processes. `baselines_bytes`: for each
    of them the least it has held since growth counts, 0 for one that appeared since then; None as
    long as the driver does not say.
    """

    is_watched: bool
    memory: DeviceMemory | None
    processes: tuple[ProcessMemory, ...]
    baselines_bytes: dict[int, int | None]

    def by_pid(self) -> dict[int, int]:
        """Growth in bytes of the processes that have grown at all."""
        growth = {}
        for process in self.processes:
            baseline, used = self.baselines_bytes[process.pid], process.used_bytes
            if baseline is not None and used is not None and used > baseline:
                growth[process.pid] = used - baseline
        return growth

    def process(self, pid: int | None) -> ProcessMemory | None:
        """The process with that pid; None when it is not listed."""
        return next((process for process in self.processes if process.pid == pid), None)


def advanced(
    before: GpuGrowth | None, sample: DeviceSample | None, engine_pids: Set[int], is_serving: bool
) -> GpuGrowth | None:
    """The GPU after one more reading; as before when its processes could not be read.

    Growth counts from the first list of processes, and anew from when an engine begins to serve:
    what is there by then has not grown. Engines' own processes never grow.

    Args: before: None when this GPU's processes were never read.
    """
    if sample is None or sample.processes is None:
        return before
    processes = sample.processes
    was_watched = before is not None and before.is_watched
    is_watched = is_serving or (
        was_watched and any(process.pid in engine_pids for process in processes)
    )
    held: Mapping[int, int | None] = before.baselines_bytes if before else {}
    starts_anew = before is None or (is_watched and not was_watched)
    baselines = {
        process.pid: (
            process.used_bytes
            if starts_anew or process.pid in engine_pids
            else _least(held.get(process.pid, 0), process.used_bytes)
        )
        for process in processes
    }
    return GpuGrowth(is_watched, sample.memory, processes, baselines)


def _least(baseline_bytes: int | None, used_bytes: int | None) -> int | None:
    if baseline_bytes is None or used_bytes is None:
        return baseline_bytes if used_bytes is None else used_bytes
    return min(baseline_bytes, used_bytes)
