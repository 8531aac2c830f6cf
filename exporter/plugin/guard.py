"""The error policy of one probe: count what fails, and after ten failures in a row stop trying.

A caller that never sets `in_a_row` back makes it ten failures in all.
"""

FAILURES_IN_A_ROW = 10


class Guard:
    """Whether one probe may run, and how it has fared.

    `is_on`: may run. `errors`: failures since engine start. `reason`: why it is off, a short text
    of bounded number (it becomes a label value); None while on.
    """

    __slots__ = ("errors", "in_a_row", "is_on", "name", "reason")

    def __init__(self, name: str, missing: str | None = None) -> None:
        self.name = name
        self.errors = 0
        self.in_a_row = 0
        self.is_on = missing is None
        self.reason = None if missing is None else f"{name}: no {missing}"

    def failed(self, why: str) -> None:
        """Count a failure; `why` is an exception's type name or another bounded word."""
        self.errors += 1
        self.in_a_row += 1
        if self.is_on and self.in_a_row >= FAILURES_IN_A_ROW:
            self.switch_off(why)

    def switch_off(self, why: str) -> None:
        """Stop for good, after FAILURES_IN_A_ROW of the same kind."""
        self.is_on = False
        self.reason = f"{self.name}: off after {FAILURES_IN_A_ROW} × {why}"
