"""What one engine has counted since the exporter knows it: never back, whoever tells it.

Times are seconds of the monotonic clock at which a record was taken.
"""

from collections import Counter

from exporter.history.origin import OriginCounter
from exporter.history.sliding_window import SlidingWindow
from exporter.records.trace import EngineRecord, KvRecord, Origin, Record
from exporter.records.view import EngineCounters

COUNTED = (
    "query_tokens",
    "hit_tokens",
    "preemptions",
    "evictions",
    "prompt_tokens",
    "generation_tokens",
    "plugin_errors",
    "plugin_dropped_records",
    "plugin_seconds",
)


class EngineCounts:
    """Counters, restarts and prefix-cache hits of one engine."""

    def __init__(self, window_capacity: int) -> None:
        self._counters = {name: OriginCounter() for name in COUNTED}
        self._query_tokens = SlidingWindow(window_capacity)
        self._hit_tokens = SlidingWindow(window_capacity)
        self._kv_pids: dict[Origin, int | None] = {}
        self._restarts: Counter[Origin] = Counter()

    def observe_kv(self, record: KvRecord, seen_s: float) -> None:
        """Take one scheduler record."""
        previous_pid = self._kv_pids.setdefault(record.origin, record.pid)
        self._kv_pids[record.origin] = record.pid
        went_back = self._update(_kv_counts(record), record, seen_s)
        self._restarts[record.origin] += previous_pid != record.pid or went_back
        if record.prefix_cache and self._counters["hit_tokens"].choice.origin == record.origin:
            self._query_tokens.add(seen_s, self._counters["query_tokens"].total or 0)
            self._hit_tokens.add(seen_s, self._counters["hit_tokens"].total or 0)

    def observe_facts(self, record: EngineRecord, seen_s: float) -> None:
        """Take one facts record, of the scheduler or of a worker."""
        self._update(_plugin_counts(record), record, seen_s)

    def view(self, now_s: float) -> EngineCounters:
        """The counters that somebody tells at present.

        Each origin sees a restart for itself, so they are not added up: the highest number counts.
        """
        shown = {name: counter.shown(now_s) for name, counter in self._counters.items()}
        return EngineCounters(**shown, restarts=max(self._restarts.values(), default=0))

    def hit_ratio(self, now_s: float) -> float | None:
        """Hits / queries in tokens over the last 60 s; None without queries."""
        if self._counters["hit_tokens"].choice.is_silent(now_s):
            return None
        queries, hits = self._query_tokens.growth(now_s), self._hit_tokens.growth(now_s)
        return hits / queries if queries and hits is not None else None

    def _update(self, counts: dict[str, float | None], record: Record, seen_s: float) -> bool:
        """Take the counts; returns whether any of them went back."""
        went_back = [
            self._counters[name].update(raw, record, seen_s) for name, raw in counts.items()
        ]
        return any(went_back)


def _kv_counts(record: KvRecord) -> dict[str, float | None]:
    cache, tokens = record.prefix_cache, record.tokens
    return {
        "query_tokens": cache.query_tokens if cache else None,
        "hit_tokens": cache.hit_tokens if cache else None,
        "preemptions": record.preemptions,
        "evictions": record.evictions,
        "prompt_tokens": tokens.prompt if tokens else None,
        "generation_tokens": tokens.generation if tokens else None,
    }


def _plugin_counts(record: EngineRecord) -> dict[str, float | None]:
    return {
        "plugin_errors": record.errors,
        "plugin_dropped_records": record.dropped_records,
        "plugin_seconds": record.plugin_seconds,
    }
