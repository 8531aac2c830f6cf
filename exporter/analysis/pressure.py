"""How full a GPU's memory and an engine's KV pool are. Knows records, not their origin."""

from collections.abc import Sequence

from exporter.records.device import DeviceMemory
from exporter.records.trace import Blocks

MIN_TREND_SAMPLES = 5
MIN_TREND_SPAN_S = 10.0
MIN_TREND_GROWTH = 0.01  # share of the pool that one span must fill; less is noise


def device_pressure(memory: DeviceMemory) -> float | None:
    """Used / (total − driver reserved), 0 to 1; used / total where memory v1 hides reserved.

    None when nothing is usable. Source: nvmlDeviceGetMemoryInfo_v2.
    """
    usable_bytes = memory.total_bytes - (memory.reserved_bytes or 0)
    return memory.used_bytes / usable_bytes if usable_bytes > 0 else None


def kv_usage(blocks: Blocks) -> float | None:
    """Active / usable KV blocks, 0 to 1; the null block is not usable. None for an empty pool."""
    return blocks.active / blocks.usable if blocks.usable else None


def kv_usage_peak(blocks: Blocks) -> float | None:
    """Highest usage since the record before, 0 to 1; the present one where no peak was told."""
    peak = blocks.active if blocks.active_peak is None else blocks.active_peak
    return peak / blocks.usable if blocks.usable else None


def exhaustion_seconds(
    times_s: Sequence[float], usages: Sequence[float], usage_now: float
) -> float | None:
    """Seconds until the KV pool is full if it goes on filling as in the samples given.

    Least-squares slope of usage (0 to 1) over time. None when there are too few samples (fewer than
    5, or less than 10 s), or the pool is not filling by at least 1 % over their span.

    Args: times_s: sample times in seconds, ascending; usages: as many usages.
    """
    count = len(times_s)
    if count < MIN_TREND_SAMPLES:
        return None
    span_s = times_s[-1] - times_s[0]
    if span_s < MIN_TREND_SPAN_S:
        return None
    mean_time = sum(times_s) / count
    mean_usage = sum(usages) / count
    covariance = sum(
        (at - mean_time) * (usage - mean_usage) for at, usage in zip(times_s, usages, strict=True)
    )
    slope_per_s = covariance / sum((at - mean_time) ** 2 for at in times_s)
    if slope_per_s * span_s < MIN_TREND_GROWTH:
        return None
    return max(0.0, 1.0 - usage_now) / slope_per_s
