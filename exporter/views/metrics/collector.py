"""Builds the families of one View for prometheus_client, and counts what the cap left out."""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from math import inf

from prometheus_client.core import Metric

from exporter.records.view import View
from exporter.views.metrics.family import Family, Sample
from exporter.views.metrics.own import DROPPED_SERIES
from exporter.views.metrics.table import FAMILIES


class DroppedSeries:
    """Series left out since start, by family; a View counts once, however often it is collected."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals: Counter[str] = Counter()
        self._newest_s = -inf

    def add(self, published_monotonic_s: float, dropped: Mapping[str, int]) -> Mapping[str, int]:
        """Add what a View's families lost, unless it is not newer than one that was added.

        Returns: the totals by family so far.
        """
        with self._lock:
            if published_monotonic_s > self._newest_s:
                self._newest_s = published_monotonic_s
                self._totals.update(dropped)
            return dict(self._totals)


class ViewCollector:
    """The families of one View, built fresh on each collect; one without samples is left out.

    `max_series`: label sets that a family keeps, the first ones in the View's own order; a
    histogram's buckets count as one.
    """

    def __init__(self, view: View, dropped_series: DroppedSeries, max_series: int) -> None:
        self._view = view
        self._dropped_series = dropped_series
        self._max_series = max_series

    def rows(self) -> Iterator[tuple[Family, list[Sample]]]:
        """The families that have samples, within the cap; any thread may call it."""
        dropped = {}
        for family in FAMILIES:
            samples = family.samples_of(self._view)
            if len(samples) > self._max_series:
                dropped[family.name] = len(samples) - self._max_series
                del samples[self._max_series :]
            if samples:
                yield family, samples
        totals = self._dropped_series.add(self._view.published_monotonic_s, dropped)
        if totals:
            yield DROPPED_SERIES, [((name,), total) for name, total in totals.items()]

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client's Collector; any thread may call it."""
        for family, samples in self.rows():
            yield family.metric(samples)
