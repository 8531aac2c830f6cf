"""Tells figures that can be true from those that cannot; knows no NVML call and no GPU."""

from collections.abc import Iterable

from exporter.records.device import DeviceMemory

MemoryFigures = tuple[int, int, int, int | None]
"""total, used, free and reserved bytes as NVML gave them; reserved is None with memory v1."""

ProcessRow = tuple[int, int | None]
"""Pid and bytes as NVML gave them; None where the driver does not say."""

_PAGE_BYTES = 2 << 20  # the driver hands out memory in pages of at most 2 MiB
_MAX_PID = 1 << 22  # Linux PID_MAX_LIMIT
_PROCESSES_PER_USED = 1.05


def device_memory(figures: MemoryFigures) -> DeviceMemory | None:
    """Memory whose parts fit their total, or None when the figures contradict each other.

    Used and free are what an allocation moves, so reserved is what the two leave of total:
    total = used + free + reserved then holds exactly where NVML's sum is off by less than a page.
    When used and free already fill total, the driver has counted reserved into used, as memory v1
    does: reserved is unknown. Any other difference leaves no way to say which figure is wrong.
    2^64 − 1, NVML's "not available", fails as larger than total.
    """
    total, used, free, reserved = figures
    unexplained = total - used - free
    if not 0 < total < 1 << 63 or unexplained < 0:
        return None
    if reserved is None or (unexplained == 0 and reserved > 0):
        return DeviceMemory(total_bytes=total, used_bytes=used, free_bytes=free)
    if abs(unexplained - reserved) >= _PAGE_BYTES:
        return None
    return DeviceMemory(
        total_bytes=total, used_bytes=used, free_bytes=free, reserved_bytes=unexplained
    )


def process_memory(
    rows: Iterable[ProcessRow], total_bytes: int | None, used_bytes: int | None
) -> dict[int, int | None] | None:
    """Bytes by pid, or None when a row cannot be true.

    One impossible row spoils all: it shows that the driver lays rows out otherwise than the caller
    believes, and then the plausible ones are chance. A pid that is listed twice (compute and
    graphics) holds the larger figure: both describe the same memory.

    Args: total_bytes, used_bytes: of the device; None when unknown, then they bound nothing.
    """
    largest = total_bytes if total_bytes is not None else (1 << 63) - 1
    by_pid: dict[int, int | None] = {}
    for pid, used in rows:
        if not 0 < pid <= _MAX_PID or (used is not None and not 0 <= used <= largest):
            return None
        known = by_pid.get(pid)
        by_pid[pid] = used if known is None else max(known, used or 0)
    if used_bytes is not None:
        owned = sum(used for used in by_pid.values() if used is not None)
        if owned > used_bytes * _PROCESSES_PER_USED:
            return None
    return by_pid
