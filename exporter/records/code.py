"""A ratio in 16 bits, as histories keep it and the live page is sent it."""

from math import isnan

MISSING = 65535
CODE_STEPS = 10_000


def code_of(ratio: float | None) -> int:
    """The ratio × CODE_STEPS, rounded; what lies beyond 0 to 1 is cut off. None, NaN: MISSING."""
    if ratio is None or isnan(ratio):
        return MISSING
    return round(min(max(ratio, 0), 1) * CODE_STEPS)
