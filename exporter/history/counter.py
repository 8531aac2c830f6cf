"""Counters of processes that may start again from zero: ours never go back."""

from collections import OrderedDict
from collections.abc import Hashable

MAX_WRITERS = 256


class ResetSafeCounter:
    """Adds up what raw cumulative counts grow by, over all the writers that tell them.

    A new writer's count starts from 0, and so does one that went back: all of it is growth.
    `total` is None until the first count. The last 256 writers are remembered.
    """

    def __init__(self) -> None:
        self.total: float | None = None
        self._last_raw: OrderedDict[Hashable, float] = OrderedDict()

    def update(self, raw: float | None, writer: Hashable) -> bool:
        """Take the newest raw count of a writer; None means not told, and changes nothing.

        Returns whether this writer's count went back, which is a restart that kept its pid.
        """
        if raw is None:
            return False
        last_raw = self._last_raw.get(writer, 0)
        went_back = raw < last_raw
        self.total = (self.total or 0) + (raw if went_back else raw - last_raw)
        self._last_raw[writer] = raw
        self._last_raw.move_to_end(writer)
        if len(self._last_raw) > MAX_WRITERS:
            self._last_raw.popitem(last=False)
        return went_back
