"""One sample of a scheduler as records: each group on its own, so that one failure voids one."""

from collections.abc import Callable
from typing import TypeVar

from exporter.plugin.engine_shapes import Scheduler
from exporter.plugin.facts import Identity
from exporter.plugin.guard import Guard
from exporter.plugin.probes import SchedulerProbes
from exporter.records.trace import KvRecord, PageTableRecord, TraceRecord

WORST_TABLES_INTERVAL_S = 10.0

T = TypeVar("T")


class KvSampler:
    """Makes records of what the probes read; `worst_tables` > 0 adds those tables every 10 s."""

    def __init__(
        self,
        probes: SchedulerProbes,
        identity: Identity,
        worst_tables: int,
        clock: Callable[[], float],
    ) -> None:
        self._probes = probes
        self._identity = identity
        self._worst_tables = worst_tables
        self._clock = clock
        self._worst_due_s = clock()
        self._has_tables = False

    def catch_up(self, scheduler: Scheduler, effort: int) -> bool:
        """Bring the page tables up to date, as far as `effort` goes; False while that is not all.

        A probe that fails or is off has nothing to catch up with.
        """
        tables, guard = self._probes.tables, self._probes.tables_guard
        if tables is None or not guard.is_on:
            return True
        self._has_tables = False
        is_done = _guarded(guard, lambda: tables.update(scheduler, effort))
        self._has_tables = is_done is True
        return is_done is not False

    def sample(self, scheduler: Scheduler, interval_s: float) -> list[TraceRecord]:
        """Read everything else and tell all; what fails is None in the record."""
        probes = self._probes
        tables, pool, flow = probes.tables, probes.pool, probes.flow
        page_table = groups = slots = blocks = free_runs = cache = tokens = preemptions = None
        if tables is not None and self._has_tables:
            counts = _guarded(probes.tables_guard, tables.counts)
            if counts is not None:
                page_table, groups = counts
                slots = _guarded(probes.slots_guard, lambda: tables.slots(scheduler))
        if pool is not None:
            has_peak = probes.peak_guard.is_on
            blocks = _guarded(probes.pool_guard, lambda: pool.blocks(has_peak))
            if blocks is not None:
                free_runs = pool.free_runs(blocks.num_free)
        if flow is not None and probes.flow_guard.is_on:
            cache = _guarded(probes.prefix_cache_guard, flow.prefix_cache)
            tokens, preemptions = flow.tokens(), flow.preemptions
        queues = _guarded(probes.queues_guard, lambda: _queues(scheduler)) or (None, None)
        records: list[TraceRecord] = [
            KvRecord(
                **self._identity.header(interval_s),
                block_size=tables.block_size if tables is not None else None,
                page_table=page_table,
                blocks=blocks,
                free_runs=free_runs,
                slots=slots,
                prefix_cache=cache,
                tokens=tokens,
                preemptions=preemptions,
                evictions=probes.evictions.count if probes.evictions is not None else None,
                running=queues[0],
                waiting=queues[1],
                groups=groups,
            )
        ]
        if page_table is not None and tables is not None and self._worst_tables:
            now = self._clock()
            if now >= self._worst_due_s:
                self._worst_due_s = now + WORST_TABLES_INTERVAL_S
                records.append(
                    PageTableRecord(
                        **self._identity.header(WORST_TABLES_INTERVAL_S),
                        tables=tuple(tables.worst(self._worst_tables)),
                    )
                )
        return records


def _queues(scheduler: Scheduler) -> tuple[int, int]:
    """(running, waiting) requests; those that vLLM passed over in its queue wait, too."""
    skipped = getattr(scheduler, "skipped_waiting", ())
    return len(scheduler.running), len(scheduler.waiting) + len(skipped)


def _guarded(guard: Guard, read: Callable[[], T]) -> T | None:
    """The result of `read`; None when the guard is off or it fails, which is counted."""
    if not guard.is_on:
        return None
    try:
        result = read()
    except Exception as exc:
        guard.failed(type(exc).__name__)
        return None
    guard.in_a_row = 0
    return result
