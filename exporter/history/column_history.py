"""What heatmaps show: the highest code of each row and column over time, in fixed memory.

Knows no metrics, only how many there are.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor

from exporter.records.code import MISSING

MOST_COLUMNS = 120
SLACK_INTERVALS = 1.5  # a sample this late still stands for the columns that none fell into

Sample = Sequence[int]
"""A code for each metric, then how many events there were since the sample before."""


@dataclass(frozen=True, slots=True)
class Window:
    """`columns` columns of `column_s` seconds, kept from `offset` on in each row's array."""

    column_s: float
    columns: int
    offset: int


class ColumnHistory:
    """Rows of codes over several windows.

    Args:
        spans_s: how long each window is.
        interval_s: time between two samples, which may change later; no column is shorter than
            at first.
        metrics: codes of a sample; its count of events comes on top.
    """

    def __init__(self, spans_s: Iterable[float], interval_s: float, metrics: int) -> None:
        self.interval_s = interval_s
        self._width = metrics + 1
        windows: list[Window] = []
        offset = 0
        for span_s in spans_s:
            column_s = max(span_s / MOST_COLUMNS, interval_s)
            columns = max(1, ceil(span_s / column_s - 1e-9))
            windows.append(Window(column_s, columns, offset))
            offset += columns * self._width
        self.windows = tuple(windows)
        self._empty = array("H", ([MISSING] * metrics + [0]) * (offset // self._width))
        self._rows: dict[str, array[int]] = {}
        self._at_s: float | None = None

    def column(self, window: int, at_s: float | None = None) -> int | None:
        """Number of the window's newest column, or of that at `at_s`; None before any sample."""
        at_s = self._at_s if at_s is None else at_s
        return None if at_s is None else floor(at_s / self.windows[window].column_s)

    def observe(self, at_s: float, rows: Mapping[str, Sample]) -> None:
        """Take one sample of every row, at `at_s` (monotonic); rows not in it are forgotten."""
        for gone in self._rows.keys() - rows.keys():
            del self._rows[gone]
        for key in rows.keys() - self._rows.keys():
            self._rows[key] = self._empty[:]
        is_late = self._at_s is None or at_s - self._at_s > SLACK_INTERVALS * self.interval_s
        for index, window in enumerate(self.windows):
            newest, column = self.column(index), floor(at_s / window.column_s)
            begun = 0 if newest is None else min(column - newest, window.columns)
            self._clear(window, range(column - begun + 1, column + 1))
            self._raise(window, column, rows, with_events=True)
            if not is_late:
                for between in range(column - begun + 1, column):
                    self._raise(window, between, rows, with_events=False)
        self._at_s = at_s

    def cells(self, window: int, metric: int, keys: Sequence[str], since: int) -> "array[int]":
        """Codes of the columns from `since` to the newest: column by column, in them by key.

        `since` must be a column that the window still has. Rows that are not known are MISSING.
        """
        newest = self.column(window)
        if newest is None:
            return array("H")
        cells = array("H", [MISSING]) * ((newest - since + 1) * len(keys))
        for place, key in enumerate(keys):
            if key in self._rows:
                cells[place :: len(keys)] = self._along(window, metric, key, since, newest)
        return cells

    def events(self, window: int, keys: Sequence[str], since: int) -> list[tuple[int, int, int]]:
        """(column, place of the key, count) of cells with events, as of `cells`."""
        newest = self.column(window)
        if newest is None:
            return []
        return [
            (since + index, place, count)
            for place, key in enumerate(keys)
            if key in self._rows
            for index, count in enumerate(self._along(window, self._width - 1, key, since, newest))
            if count
        ]

    def _along(self, index: int, slot: int, key: str, since: int, newest: int) -> "array[int]":
        window, row = self.windows[index], self._rows[key]
        begin, end = window.offset, window.offset + window.columns * self._width
        ring = row[begin + slot : end : self._width]
        first, last = since % window.columns, newest % window.columns
        return ring[first : last + 1] if first <= last else ring[first:] + ring[: last + 1]

    def _clear(self, window: Window, columns: Iterable[int]) -> None:
        nothing = self._empty[: self._width]
        for column in columns:
            at = window.offset + column % window.columns * self._width
            for row in self._rows.values():
                row[at : at + self._width] = nothing

    def _raise(
        self, window: Window, column: int, rows: Mapping[str, Sample], *, with_events: bool
    ) -> None:
        at = window.offset + column % window.columns * self._width
        last = at + self._width - 1
        for key, codes in rows.items():
            row = self._rows[key]
            for slot, code in enumerate(codes[:-1], at):
                if code != MISSING and (row[slot] == MISSING or code > row[slot]):
                    row[slot] = code
            if with_events and codes[-1]:
                row[last] = min(row[last] + codes[-1], MISSING)
