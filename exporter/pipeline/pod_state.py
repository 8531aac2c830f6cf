"""The kubelet's last list between ticks."""

from collections.abc import Mapping

from exporter.records.pods import PodReading
from exporter.records.view import GpuHolderView

STALE_INTERVALS = 3.0


class PodState:
    """Remembers who holds which GPU; `observe` at each reading, `view` at each tick."""

    def __init__(self) -> None:
        self._reading: PodReading | None = None
        self._at_s = 0.0

    def observe(self, reading: PodReading, at_s: float) -> None:
        """Take a list; who is not on it holds nothing any more."""
        self._reading, self._at_s = reading, at_s

    def view(self, now_s: float, index_by_uuid: Mapping[str, int]) -> tuple[GpuHolderView, ...]:
        """The holders, joined to GPUs on uuid alone; none once the list is three intervals old."""
        reading = self._reading
        if reading is None or now_s - self._at_s > STALE_INTERVALS * reading.interval_s:
            return ()
        return tuple(
            GpuHolderView(device=index_by_uuid.get(holder.uuid), holder=holder)
            for holder in reading.holders
        )
