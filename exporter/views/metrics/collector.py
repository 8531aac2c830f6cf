"""Builds the families of one View for prometheus_client, and counts what the cap left out."""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from math import inf

from prometheus_client.core import CollectorRegistry, Metric
from prometheus_client.process_collector import ProcessCollector

from exporter.records.view import View
from exporter.views.metrics.own import DROPPED_SERIES
from exporter.views.metrics.table import FAMILIES

MAX_SERIES = 10_000


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

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client's Collector; any thread may call it."""
        dropped = {}
        for family in FAMILIES:
            samples = list(family.samples(self._view))
            if len(samples) > self._max_series:
                dropped[family.name] = len(samples) - self._max_series
                del samples[self._max_series :]
            if samples:
                yield family.metric(samples)
        totals = self._dropped_series.add(self._view.published_monotonic_s, dropped)
        if totals:
            yield DROPPED_SERIES.metric([((name,), total) for name, total in totals.items()])


class Exposition:
    """Makes the registry that is rendered for a View: its families, and this process's own.

    `max_series`: see ViewCollector.
    """

    def __init__(self, max_series: int = MAX_SERIES) -> None:
        self._max_series = max_series
        self._dropped_series = DroppedSeries()
        self._process = ProcessCollector(registry=None)

    def registry_of(self, view: View) -> CollectorRegistry:
        """A registry of its own with nothing but this View in it; any thread may call it."""
        registry = CollectorRegistry()
        registry.register(ViewCollector(view, self._dropped_series, self._max_series))
        registry.register(self._process)
        return registry
