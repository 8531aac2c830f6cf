"""A ratio in 16 bits, as histories keep it and the live page is sent it."""

MISSING = 65535
CODE_STEPS = 10_000


def code_of(ratio: float | None) -> int:
    """The ratio × CODE_STEPS, rounded; what lies beyond 0 to 1 is cut off; None is MISSING."""
    return MISSING if ratio is None else min(max(round(ratio * CODE_STEPS), 0), CODE_STEPS)
