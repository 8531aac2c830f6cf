"""One GPU's slow figures between ticks: the newest of each lane, counters without resets."""

from collections import Counter
from typing import Generic, TypeVar

from msgspec.structs import replace

from exporter.history.counter import ResetSafeCounter
from exporter.records.device_detail import CounterName, DeviceDetail, DeviceProfile

STALE_INTERVALS = 3.0

Figures = TypeVar("Figures")


class Newest(Generic[Figures]):
    """The newest figures of one lane, until they are three of its intervals old."""

    def __init__(self) -> None:
        self._figures: Figures | None = None
        self._until_s = 0.0

    def put(self, figures: Figures, at_s: float, interval_s: float) -> None:
        """Take figures of `at_s` (monotonic seconds)."""
        self._figures, self._until_s = figures, at_s + STALE_INTERVALS * interval_s

    def get(self, now_s: float) -> Figures | None:
        """The figures; None when there are none or they are stale."""
        return self._figures if now_s <= self._until_s else None


class DeviceDetails:
    """Remembers what the lanes tell of one GPU. `xid_errors`: Xid code → errors since start."""

    def __init__(self) -> None:
        self.xid_errors: Counter[str] = Counter()
        self.profile = Newest[DeviceProfile]()
        self._detail = Newest[DeviceDetail]()
        self._counters: dict[CounterName, ResetSafeCounter] = {}

    def observe_detail(self, detail: DeviceDetail, at_s: float, interval_s: float) -> None:
        """Take one reading of the slow lane."""
        counters: dict[CounterName, float] = {}
        for name, raw in detail.counters.items():
            counter = self._counters.setdefault(name, ResetSafeCounter())
            counter.update(raw, None)
            counters[name] = counter.total or 0
        self._detail.put(replace(detail, counters=counters), at_s, interval_s)

    def detail(self, now_s: float) -> DeviceDetail | None:
        """The newest details, their counters going on where a driver began again from zero."""
        return self._detail.get(now_s)
