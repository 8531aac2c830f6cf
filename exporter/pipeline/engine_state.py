"""One engine between ticks: its newest records, windows and counters.

Times are seconds of the monotonic clock at which a record was taken (its age already subtracted).
"""

import msgspec

from exporter.analysis import fragmentation, pressure
from exporter.history.counter import ResetSafeCounter
from exporter.history.identities import FORGET_S
from exporter.history.latest import Latest
from exporter.history.sliding_window import SlidingWindow
from exporter.records.trace import EngineRecord, KvRecord
from exporter.records.view import EngineCounters, EngineView, Window

WINDOW_CAPACITY = 1200
SEVERITY = {None: 0, "active": 0, "degraded": 1, "unsupported": 2}
KV_COUNTED = (
    "query_tokens",
    "hit_tokens",
    "preemptions",
    "evictions",
    "prompt_tokens",
    "generation_tokens",
)
PLUGIN_COUNTED = ("plugin_errors", "plugin_dropped_records", "plugin_seconds")


class EngineState:
    """Remembers one engine; `observe_…` at each record, `refresh` and `view` at each tick."""

    def __init__(self, replica: str, engine: str) -> None:
        self.replica = replica
        self.engine = engine
        self.model_name = ""
        self.usage_ratio: float | None = None
        self.usage_peak_ratio: float | None = None
        self._has_been_up = False
        self._last_seen_s = 0.0
        self._kv: Latest[KvRecord] | None = None
        self._facts: dict[int | None, Latest[EngineRecord]] = {}
        self._restarts = 0
        self._usage = SlidingWindow(WINDOW_CAPACITY)
        self._usage_peak = SlidingWindow(WINDOW_CAPACITY)
        self._query_tokens = SlidingWindow(WINDOW_CAPACITY)
        self._hit_tokens = SlidingWindow(WINDOW_CAPACITY)
        self._counters = {name: ResetSafeCounter() for name in (*KV_COUNTED, *PLUGIN_COUNTED)}

    def observe_kv(self, record: KvRecord, seen_s: float) -> None:
        """Take one scheduler record."""
        previous = self._kv
        self._kv = Latest(record, seen_s)
        self._last_seen_s = seen_s
        self.model_name = record.model_name or self.model_name
        has_new_pid = previous is not None and previous.record.pid != record.pid
        went_back = self._count(_kv_counts(record), record.pid)
        self._restarts += has_new_pid or went_back
        if record.blocks:
            self._remember_usage(seen_s, record)
        if record.prefix_cache:
            self._query_tokens.add(seen_s, self._counters["query_tokens"].total or 0)
            self._hit_tokens.add(seen_s, self._counters["hit_tokens"].total or 0)

    def observe_facts(self, record: EngineRecord, seen_s: float) -> None:
        """Take one facts record, of the scheduler or of a worker."""
        self._facts[record.pid] = Latest(record, seen_s)
        self._last_seen_s = max(self._last_seen_s, seen_s)
        self.model_name = record.model_name or self.model_name
        self._count(_plugin_counts(record), record.pid)

    def refresh(self, now_s: float) -> None:
        """Settle what is still true at `now_s`: what is too old is no longer known."""
        self._facts = {pid: last for pid, last in self._facts.items() if last.fresh(now_s)}
        kv = self._fresh_kv(now_s)
        self._has_been_up = self._has_been_up or kv is not None or bool(self._facts)
        blocks = kv.blocks if kv else None
        self.usage_ratio = pressure.kv_usage(blocks) if blocks else None
        self.usage_peak_ratio = pressure.kv_usage_peak(blocks) if blocks else None

    def is_forgotten(self, now_s: float) -> bool:
        """Whether it has been silent for so long that it is no longer worth a series."""
        return not self._has_been_up or now_s - self._last_seen_s > FORGET_S

    def view(self, now_s: float) -> EngineView:
        """This engine as of the last `refresh`."""
        kv = self._fresh_kv(now_s)
        page_table = kv.page_table if kv else None
        free_runs = kv.free_runs if kv else None
        return EngineView(
            replica=self.replica,
            model_name=self.model_name,
            engine=self.engine,
            is_up=kv is not None or bool(self._facts),
            kv=kv,
            facts=self._merged_facts(),
            counters=self._shown_counters(kv),
            hit_ratio=self._hit_ratio(now_s) if kv else None,
            usage_ratio=self.usage_ratio,
            usage_window=self._usage_window(now_s),
            contiguity_ratio=fragmentation.contiguity(page_table) if page_table else None,
            extents=fragmentation.extents(page_table) if page_table else None,
            kv_fragmentation_ratio=(
                fragmentation.kv_fragmentation(kv.slots) if kv and kv.slots else None
            ),
            free_queue_contiguity_ratio=(
                fragmentation.free_queue_contiguity(free_runs) if free_runs else None
            ),
            headroom_tokens=self._headroom_tokens(kv),
            exhaustion_seconds=self._exhaustion_seconds(now_s),
        )

    def _shown_counters(self, kv: KvRecord | None) -> EngineCounters:
        shown = (*(KV_COUNTED if kv else ()), *(PLUGIN_COUNTED if self._facts else ()))
        totals = {name: self._counters[name].total for name in shown}
        return EngineCounters(**totals, restarts=self._restarts)

    def _fresh_kv(self, now_s: float) -> KvRecord | None:
        return self._kv.fresh(now_s) if self._kv else None

    def _count(self, counts: dict[str, float | None], pid: int | None) -> bool:
        went_back = [self._counters[name].update(raw, pid) for name, raw in counts.items()]
        return any(went_back)

    def _remember_usage(self, seen_s: float, record: KvRecord) -> None:
        blocks = record.blocks
        usage = pressure.kv_usage(blocks) if blocks else None
        peak = pressure.kv_usage_peak(blocks) if blocks else None
        if usage is not None and peak is not None:
            self._usage.add(seen_s, usage)
            self._usage_peak.add(seen_s, peak)

    def _usage_window(self, now_s: float) -> Window | None:
        usage, peak = self._usage.summary(now_s), self._usage_peak.summary(now_s)
        if self.usage_ratio is None or usage is None or peak is None:
            return None
        return Window(min=usage.min, max=peak.max, mean=usage.mean)

    def _hit_ratio(self, now_s: float) -> float | None:
        queries, hits = self._query_tokens.growth(now_s), self._hit_tokens.growth(now_s)
        return hits / queries if queries and hits is not None else None

    def _headroom_tokens(self, kv: KvRecord | None) -> int | None:
        facts = self._merged_facts()
        block_size = (kv.block_size if kv else None) or (facts.block_size if facts else None)
        if kv is None or kv.blocks is None or block_size is None:
            return None
        return kv.blocks.num_free * block_size

    def _exhaustion_seconds(self, now_s: float) -> float | None:
        if self.usage_ratio is None:
            return None
        times_s, usages = self._usage.samples(now_s)
        return pressure.exhaustion_seconds(times_s, usages, self.usage_ratio)

    def _merged_facts(self) -> EngineRecord | None:
        """The scheduler's facts with the worst status that any process of the engine told."""
        records = [last.record for last in self._facts.values()]
        if not records:
            return None
        scheduler_pid = self._kv.record.pid if self._kv else None
        facts = next((record for record in records if record.pid == scheduler_pid), records[0])
        worst = max(records, key=lambda record: SEVERITY[record.status])
        if SEVERITY[worst.status] > SEVERITY[facts.status]:
            return msgspec.structs.replace(facts, status=worst.status, reason=worst.reason)
        return facts


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
