"""Ratios of paired blocks, and how well their mean is known."""

import math
import statistics
from collections.abc import Sequence


def ratio_with_interval(ratios: Sequence[float]) -> tuple[float, float, float]:
    """Geometric mean of ratios and its 95 % interval (normal, on logarithms).

    With one ratio the interval is that ratio itself.
    """
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.fmean(logs)
    half = 1.96 * statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else 0.0
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)
