"""One engine between ticks: its newest records, windows and counters.

Times are seconds of the monotonic clock at which a record was taken (its age already subtracted).
"""

from exporter.analysis import fragmentation, pressure
from exporter.analysis.worker import STALE_INTERVALS
from exporter.history.identities import FORGET_S
from exporter.history.latest import Latest
from exporter.history.origin import ORIGINS, OriginChoice
from exporter.history.sliding_window import SlidingWindow
from exporter.pipeline import precedence
from exporter.pipeline.engine_counts import EngineCounts
from exporter.records.trace import EngineRecord, KvRecord, Origin, Writer
from exporter.records.view import EngineView, Window

WINDOW_CAPACITY = 1200


class EngineState:
    """Remembers one engine; `observe_…` at each record, `refresh` and `view` at each tick.

    Its plugin, vLLM's own /metrics and vLLM's log may tell of it at the same time: each figure is
    taken from the best of them that tells it.
    """

    def __init__(self, replica: str, engine: str) -> None:
        self.replica = replica
        self.engine = engine
        self.model_name = ""
        self.usage_ratio: float | None = None
        self.usage_peak_ratio: float | None = None
        self._has_been_up = False
        self._last_seen_s = 0.0
        self._latest_kv: dict[Origin, Latest[KvRecord]] = {}
        self._latest_facts: dict[tuple[Origin, Writer], Latest[EngineRecord]] = {}
        self._kv: KvRecord | None = None
        self._facts: EngineRecord | None = None
        self._name_choice = OriginChoice()
        self._usage_choice = OriginChoice()
        self._usage = SlidingWindow(WINDOW_CAPACITY)
        self._usage_peak = SlidingWindow(WINDOW_CAPACITY)
        self._counts = EngineCounts(WINDOW_CAPACITY)

    def observe_kv(self, record: KvRecord, seen_s: float) -> None:
        """Take one scheduler record."""
        self._latest_kv[record.origin] = Latest(record, seen_s)
        self._observe(record, seen_s)
        self._counts.observe_kv(record, seen_s)
        usage, peak = _usage_ratios(record)
        if usage is None or peak is None or not self._usage_choice.take(record, seen_s):
            return
        self._usage.add(seen_s, usage)
        self._usage_peak.add(seen_s, peak)

    def observe_facts(self, record: EngineRecord, seen_s: float) -> None:
        """Take one facts record, of the scheduler or of a worker."""
        self._latest_facts[record.origin, record.writer] = Latest(record, seen_s)
        self._observe(record, seen_s)
        self._counts.observe_facts(record, seen_s)

    def refresh(self, now_s: float) -> None:
        """Settle what is still true at `now_s`: what is too old is no longer known."""
        self._latest_facts = {
            key: last for key, last in self._latest_facts.items() if last.fresh(now_s)
        }
        kv = [fresh for last in self._latest_kv.values() if (fresh := last.fresh(now_s))]
        self._kv = precedence.merged(precedence.best_first(kv))
        scheduler = self._latest_kv.get("plugin")
        self._facts = precedence.merged_facts(
            [last.record for last in self._latest_facts.values()],
            scheduler.record.pid if scheduler else None,
        )
        self._has_been_up = self._has_been_up or self._is_up
        self.usage_ratio, self.usage_peak_ratio = _usage_ratios(self._kv)

    @property
    def facts(self) -> EngineRecord | None:
        """Its facts as of the last `refresh`; None when too old."""
        return self._facts

    @property
    def own_pids(self) -> frozenset[int]:
        """Pids by which its processes know themselves, as far as these tell of it."""
        pids = {last.record.pid for last in self._latest_kv.values()}
        pids.update(last.record.pid for last in self._latest_facts.values())
        return frozenset(pid for pid in pids if pid is not None)

    def kv_of_blocks(self, at_s: float) -> Latest[KvRecord] | None:
        """The scheduler record that tells best of KV blocks at `at_s`; None when there is none.

        The best origin's that is young enough for the ledger and tells of blocks; else the newest.
        """
        for origin in ORIGINS:
            last = self._latest_kv.get(origin)
            if last and last.record.blocks and last.age_intervals(at_s) <= STALE_INTERVALS:
                return last
        return max(self._latest_kv.values(), key=lambda last: last.seen_s, default=None)

    def is_forgotten(self, now_s: float) -> bool:
        """Whether it has been silent for so long that it is no longer worth a series."""
        return not self._has_been_up or now_s - self._last_seen_s > FORGET_S

    def view(self, now_s: float) -> EngineView:
        """This engine as of the last `refresh`."""
        kv = self._kv
        page_table = kv.page_table if kv else None
        free_runs = kv.free_runs if kv else None
        return EngineView(
            replica=self.replica,
            model_name=self.model_name,
            engine=self.engine,
            is_up=self._is_up,
            kv=kv,
            facts=self._facts,
            counters=self._counts.view(now_s),
            hit_ratio=self._counts.hit_ratio(now_s),
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
            headroom_tokens=self._headroom_tokens(),
            exhaustion_seconds=self._exhaustion_seconds(now_s),
        )

    @property
    def _is_up(self) -> bool:
        """Facts come too rarely to tell that an engine lives, unless they are all it ever told."""
        return self._kv is not None if self._latest_kv else self._facts is not None

    def _observe(self, record: KvRecord | EngineRecord, seen_s: float) -> None:
        self._last_seen_s = max(self._last_seen_s, seen_s)
        if record.model_name and self._name_choice.take(record, seen_s):
            self.model_name = record.model_name

    def _usage_window(self, now_s: float) -> Window | None:
        usage, peak = self._usage.summary(now_s), self._usage_peak.summary(now_s)
        if self.usage_ratio is None or usage is None or peak is None:
            return None
        return Window(min=usage.min, max=peak.max, mean=usage.mean)

    def _headroom_tokens(self) -> int | None:
        block_size = (self._kv.block_size if self._kv else None) or (
            self._facts.block_size if self._facts else None
        )
        if self._kv is None or self._kv.blocks is None or block_size is None:
            return None
        return self._kv.blocks.num_free * block_size

    def _exhaustion_seconds(self, now_s: float) -> float | None:
        if self.usage_ratio is None:
            return None
        times_s, usages = self._usage.samples(now_s)
        return pressure.exhaustion_seconds(times_s, usages, self.usage_ratio)


def _usage_ratios(kv: KvRecord | None) -> tuple[float | None, float | None]:
    """KV usage now and at its peak since the record before; where no peak is told, the same."""
    if kv is None:
        return None, None
    if kv.blocks is None:
        return kv.usage_ratio, kv.usage_ratio
    return pressure.kv_usage(kv.blocks), pressure.kv_usage_peak(kv.blocks)
