"""The text of a View. prometheus_client writes each line once; afterwards only its value changes.

From one View to the next nearly all series stay, and escaping names and labels costs most of a
scrape: so what the encoder wrote up to the value is kept, for as long as the series are the same.
"""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from prometheus_client.core import CollectorRegistry, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.utils import floatToGoString

from exporter.records.source import Histogram
from exporter.records.view import View
from exporter.views.metrics.collector import DroppedSeries, ViewCollector
from exporter.views.metrics.family import Sample
from exporter.views.metrics.text_format import TextFormat

MAX_SERIES = 10_000
MAX_FORMATS = 4  # a client can ask for any OpenMetrics version: each is a format of its own
OPENMETRICS_END = b"# EOF\n"


class Exposition:
    """Renders Views: their families, and this process's own. `max_series`: see ViewCollector."""

    def __init__(self, max_series: int = MAX_SERIES) -> None:
        self._max_series = max_series
        self._dropped_series = DroppedSeries()
        self._process = ProcessCollector(registry=None)
        self._lock = threading.Lock()
        self._kept: dict[TextFormat, dict[str, FamilyText]] = {}

    def registry_of(self, view: View) -> CollectorRegistry:
        """A registry of its own with nothing but this View in it; any thread may call it."""
        registry = CollectorRegistry()
        registry.register(self._collector_of(view))
        registry.register(self._process)
        return registry

    def render(self, view: View, text_format: TextFormat) -> bytes:
        """What the encoder makes of `registry_of(view)`, to the byte; any thread may call it."""
        with self._lock:
            if text_format not in self._kept and len(self._kept) >= MAX_FORMATS:
                self._kept.clear()
            kept = self._kept.get(text_format, {})
            current: dict[str, FamilyText] = {}
            self._kept[text_format] = current
            for family, samples in self._collector_of(view).rows():
                known = kept.get(family.name)
                if known is None or not known.has_series_of(samples):
                    known = FamilyText.of(samples, _encoded(family.metric(samples), text_format))
                current[family.name] = known.with_values(samples)
            text = "".join(family.text for family in current.values())
        return text.encode() + text_format.encode(self._process)

    def _collector_of(self, view: View) -> ViewCollector:
        return ViewCollector(view, self._dropped_series, self._max_series)


@dataclass(frozen=True, slots=True)
class FamilyText:
    """The text of a family, and what the encoder wrote of it: head, and lines up to the value."""

    samples: list[Sample]
    text: str
    head: str
    starts: list[str]

    @classmethod
    def of(cls, samples: list[Sample], text: str) -> "FamilyText":
        """Take apart what the encoder wrote of these samples."""
        lines = text.split("\n")[:-1]
        starts = [line.rpartition(" ")[0] + " " for line in lines if not line.startswith("#")]
        head = "".join(f"{line}\n" for line in lines if line.startswith("#"))
        return cls(samples, text, head, starts)

    def has_series_of(self, samples: list[Sample]) -> bool:
        """Whether the samples are of the same series, in the same order."""
        return [values for values, _ in self.samples] == [values for values, _ in samples]

    def with_values(self, samples: list[Sample]) -> "FamilyText":
        """The same series with the values of these samples."""
        if samples == self.samples:
            return self
        lines = [self.head]
        for start, number in zip(self.starts, _numbers(samples), strict=True):
            lines.append(f"{start}{floatToGoString(number)}\n")  # type: ignore[no-untyped-call]
        return FamilyText(samples, "".join(lines), self.head, self.starts)


def _numbers(samples: Sequence[Sample]) -> Iterator[float]:
    """The values in the order in which an encoder writes them."""
    for _values, sample in samples:
        if isinstance(sample, Histogram):
            yield from accumulate(sample.counts)
            yield sum(sample.counts)
            yield sample.total
        else:
            yield sample


def _encoded(metric: Metric, text_format: TextFormat) -> str:
    return text_format.encode(_OneFamily(metric)).removesuffix(OPENMETRICS_END).decode()


@dataclass(frozen=True, slots=True)
class _OneFamily:
    metric: Metric

    def collect(self) -> Iterator[Metric]:
        yield self.metric
