"""The newest record of one kind, and whether it is still to be shown."""

from typing import Generic, TypeVar

from exporter.history.identities import LIVE_INTERVALS
from exporter.records.trace import Record

Kind = TypeVar("Kind", bound=Record)


class Latest(Generic[Kind]):
    """The newest record and its time; gone after three times its interval."""

    def __init__(self, record: Kind, seen_s: float) -> None:
        self.record = record
        self.seen_s = seen_s

    def fresh(self, now_s: float) -> Kind | None:
        """The record, or None when it is too old to be shown."""
        return self.record if self.age_intervals(now_s) <= LIVE_INTERVALS else None

    def age_intervals(self, now_s: float) -> float:
        """Age in intervals of the record's own kind."""
        return (now_s - self.seen_s) / self.record.interval_s
