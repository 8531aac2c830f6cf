"""How often a sampled figure lay in which range, counted since start."""

from bisect import bisect_left

from exporter.records.source import Histogram

PRESSURE_BOUNDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 1.0)
DURATION_BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class SampleHistogram:
    """Counts per bucket; a value equal to a bound belongs to that bucket, as `le` says."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def observe(self, value: float) -> None:
        """Count one sample."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def snapshot(self) -> Histogram:
        """Everything counted so far."""
        return Histogram(bounds=self._bounds, counts=tuple(self._counts), total=self._total)
