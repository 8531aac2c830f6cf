"""One row of the metric table, and how it becomes a family of prometheus_client."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import isfinite
from typing import Literal

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.utils import floatToGoString

from exporter.records.source import Histogram
from exporter.records.view import View

Kind = Literal["gauge", "counter", "histogram"]
LabelValues = tuple[str, ...]
Sample = tuple[LabelValues, float | Histogram]
Samples = Callable[[View], Iterable[Sample]]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: what it is called, what it means, and where its samples stand in a View.

    `name`: as on the wire, so a counter's ends in ``_total``; an ``_info`` is a gauge of 1.
    `help`: the meaning with its source, and the denominator of a ratio. `samples`: label values in
    the order of `labels`, each with a number, or with a Histogram for that kind; a figure that
    is unknown is left out. The order decides which series stay when the cap is reached.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...]
    samples: Samples

    def samples_of(self, view: View) -> list[Sample]:
        """The family's samples in a View; those that are not finite numbers are left out."""
        return [
            (values, sample)
            for values, sample in self.samples(view)
            if isinstance(sample, Histogram) or isfinite(sample)
        ]

    def metric(self, samples: Sequence[Sample]) -> Metric:
        """The family with these samples, as prometheus_client has it."""
        if self.kind == "histogram":
            histogram = HistogramMetricFamily(self.name, self.help, labels=self.labels)
            for values, sample in samples:
                if isinstance(sample, Histogram):
                    histogram.add_metric(_clean(values), _buckets(sample), sample.total)
            return histogram
        make = CounterMetricFamily if self.kind == "counter" else GaugeMetricFamily
        family = make(self.name, self.help, labels=self.labels)
        for values, sample in samples:
            if not isinstance(sample, Histogram):
                family.add_metric(_clean(values), sample)
        return family


@dataclass(frozen=True, slots=True)
class Subject:
    """The families about one thing, under the heading that they have in the reference page."""

    title: str
    families: tuple[Family, ...]


def _clean(values: LabelValues) -> LabelValues:
    """The values as text that UTF-8 can hold: a process can be named with any bytes."""
    if all(map(str.isascii, values)):
        return values
    return tuple(value.encode("utf-8", "replace").decode("utf-8") for value in values)


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    bounds = [*map(floatToGoString, histogram.bounds), "+Inf"]
    return list(zip(bounds, accumulate(histogram.counts), strict=True))
