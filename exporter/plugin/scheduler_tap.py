"""What is done at each step of one scheduler: count, and now and then sample.

It decides when, bounds what that costs, and keeps every failure to itself.
"""

import math
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from exporter.plugin.engine_shapes import Scheduler, SchedulerOutput
from exporter.plugin.facts import Identity
from exporter.plugin.kv_sample import KvSampler
from exporter.plugin.probes import SchedulerProbes
from exporter.plugin.trace_writer import FACTS_INTERVAL_S
from exporter.records.trace import EngineRecord, PluginStatus, TraceRecord

SLICE_INTERVAL_S = 0.025
LAP_MAX_AGE_S = 30.0
LARGEST_SHARE = 0.002  # of the engine's time: for samples, and again for slices of the pool
LONGEST_INTERVAL_S = 60.0
EFFORT_PER_STEP = 150  # blocks
LATEST_S = 0.25  # a sample that is due for longer is finished whatever it takes
SLOW_STEP_S = 0.002
SLOW_STEPS_IN_A_ROW = 10
SILENT_AFTER_S = 30.0
LAST_SAMPLE_TIMEOUT_S = 0.5
LONGEST_REASON = 512  # characters


class SchedulerTap:
    """Watches one scheduler; `on_step` runs in the engine's thread, the rest in the writer's.

    Args:
        scheduler: held weakly; when it is gone, so is the reason to write.
        identity: what the records carry.
        facts: the constant fields of its EngineRecord.
        interval_s: seconds between samples; a sample that costs much makes it longer.
        worst_tables: how many tables to describe now and then, 0 for none.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        identity: Identity,
        facts: dict[str, Any],
        interval_s: float,
        worst_tables: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.probes = SchedulerProbes(scheduler)
        self._flow = self.probes.flow  # None once it is off; so is `_pool`, for the peak only
        self._pool = self.probes.pool
        self.put: Callable[[TraceRecord], None] = _nowhere
        self._scheduler = weakref.ref(scheduler)
        self._identity = identity
        self._facts = facts
        self._sampler = KvSampler(self.probes, identity, worst_tables, clock)
        self._clock = clock
        self._is_live = True
        self._is_paused = False
        self._lock = threading.Lock()  # between a step's sample and the idle one
        self._steps = 0
        self._slow_steps = 0
        self._seconds = 0.0
        self._least_interval_s = self._interval_s = interval_s
        self._started_s = self._last_step_s = self._lap_begun_s = clock()
        self._due_s = self._slice_due_s = 0.0
        self._sample_due_s = self._idle_due_s = self._started_s + interval_s
        self._sample_cost_s = self._slice_cost_s = 0.0
        self._status_told: tuple[str, str | None] | None = None

    def on_step(self, scheduler: Scheduler, output: SchedulerOutput) -> None:
        """Take one step into account; never raises. O(new requests), except when a sample is due.

        Args: scheduler, output: self and the result of `Scheduler.schedule`.
        """
        if not self._is_live:
            return
        start = self._clock()
        self._steps += 1
        self._last_step_s = start
        flow = self._flow
        if flow is not None:
            try:
                flow.count(scheduler, output)
            except Exception as exc:
                self._flow_failed(type(exc).__name__)
        pool = self._pool
        if pool is not None:
            try:
                if pool.queue.num_free_blocks < pool.least_free:
                    pool.least_free = pool.num_free()
            except Exception as exc:
                self._peak_failed(type(exc).__name__)
        if start >= self._due_s:
            self._work_guarded(scheduler)
            self._seconds += self._clock() - start
            return
        seconds = self._clock() - start
        self._seconds += seconds
        if seconds > SLOW_STEP_S:
            self._slow_steps += 1
            if self._slow_steps == SLOW_STEPS_IN_A_ROW:
                self.probes.flow_guard.switch_off("slow step")
                self._flow = None
        elif self._slow_steps:
            self._slow_steps = 0

    def stop(self) -> None:
        """Do nothing from now on: this process is a fork, and its writer stayed behind."""
        self._is_live = False

    # RecordSource, in the writer's thread:

    @property
    def is_gone(self) -> bool:
        """Whether the scheduler has been deleted."""
        return self._scheduler() is None

    def set_paused(self, is_paused: bool) -> None:
        """Stop or resume; steps in between are not counted."""
        if not is_paused:
            with self._lock:
                if self.probes.flow is not None:
                    self.probes.flow.resume()
                if self.probes.pool is not None:
                    self.probes.pool.restart_lap()
                self._last_step_s = self._clock()
        self._is_paused = is_paused
        self._is_live = not is_paused

    def tick(self) -> Sequence[TraceRecord]:
        """A sample while the engine is idle: nothing has been scheduled for one interval."""
        now = self._clock()
        scheduler = self._scheduler()
        if (
            scheduler is None
            or now < self._idle_due_s
            or now - self._last_step_s < self._interval_s
        ):
            return ()
        self._idle_due_s = now + self._interval_s
        with self._lock:
            steps = self._steps
            self._finish_lap(steps, now)
            self._sampler.catch_up(scheduler, sys.maxsize)
            records = self._sampler.sample(scheduler, self._interval_s)
        return records if self._steps == steps else ()  # else the engine woke up meanwhile

    def last(self) -> Sequence[TraceRecord]:
        """One sample more, so that the counters in the file are complete."""
        scheduler = self._scheduler()
        if scheduler is None or not self._lock.acquire(timeout=LAST_SAMPLE_TIMEOUT_S):
            return ()
        try:
            self._sampler.catch_up(scheduler, sys.maxsize)
            return self._sampler.sample(scheduler, self._interval_s)
        finally:
            self._lock.release()

    def facts(self, writer_errors: int, dropped_records: int) -> EngineRecord:
        """Facts, capabilities and health."""
        status, reason = self._status()
        return EngineRecord(
            **self._identity.header(FACTS_INTERVAL_S),
            **self._facts,
            role=self._identity.role,
            start_unix_ns=self._identity.start_unix_ns,
            status=status,
            reason=reason,
            capabilities=self.probes.capabilities(),
            errors=writer_errors + sum(guard.errors for guard in self.probes.guards),
            dropped_records=dropped_records,
            plugin_seconds=round(self._seconds, 6),
        )

    def take_status_change(self) -> bool:
        """True once after status or reason have changed."""
        status = self._status()
        has_changed = status != self._status_told
        self._status_told = status
        return has_changed

    def _status(self) -> tuple[PluginStatus, str | None]:
        if self._is_paused:
            return "degraded", "paused"
        reasons = [guard.reason for guard in self.probes.guards if guard.reason]
        scheduler = self._scheduler()
        is_late = self._clock() - self._started_s > SILENT_AFTER_S
        if not self._steps and is_late and scheduler is not None and scheduler.running:
            reasons.append("schedule() is not called")
        reason = "; ".join(reasons)[:LONGEST_REASON] or None
        main = (self.probes.tables_guard, self.probes.pool_guard, self.probes.flow_guard)
        if not any(guard.is_on for guard in main):
            return "unsupported", reason
        return ("degraded", reason) if reason else ("active", None)

    def _flow_failed(self, why: str) -> None:
        """There is no way back: one step that is missed spoils a counter."""
        guard = self.probes.flow_guard
        guard.failed(why)
        if not guard.is_on:
            self._flow = None

    def _peak_failed(self, why: str) -> None:
        guard = self.probes.peak_guard
        guard.failed(why)
        if not guard.is_on:
            self._pool = None

    def _work_guarded(self, scheduler: Scheduler) -> None:
        guard = self.probes.work_guard
        if not guard.is_on:
            self._due_s = math.inf
            return
        try:
            self._work(scheduler, self._clock())
            guard.in_a_row = 0
        except Exception as exc:
            guard.failed(type(exc).__name__)

    def _work(self, scheduler: Scheduler, now: float) -> None:
        """A sample or a slice of the pool, whichever is due; neither while the writer samples.

        A backlog of page tables is spread over some steps, but prompts of many blocks at each slow
        step could outrun that for ever.
        """
        if not self._lock.acquire(blocking=False):
            return
        try:
            if now >= self._sample_due_s:
                is_late = now - self._sample_due_s > LATEST_S
                effort = sys.maxsize if is_late else EFFORT_PER_STEP
                if not self._sampler.catch_up(scheduler, effort):
                    return
                for record in self._sampler.sample(scheduler, self._interval_s):
                    self.put(record)
                cost_s = self._clock() - now
                lasting_s = min(cost_s, self._sample_cost_s)  # one slow sample can be chance
                self._sample_cost_s = cost_s
                self._interval_s = min(
                    max(self._least_interval_s, lasting_s / LARGEST_SHARE), LONGEST_INTERVAL_S
                )
                self._sample_due_s = now + self._interval_s
            else:
                self._scan(now)
        finally:
            self._lock.release()
        self._due_s = min(self._sample_due_s, self._slice_due_s)

    def _scan(self, now: float) -> None:
        probes = self.probes
        self._slice_due_s = now + LONGEST_INTERVAL_S
        if probes.pool is None or not probes.scan_guard.is_on:
            return
        try:
            has_ended = probes.pool.scan_slice(self._steps)
            probes.scan_guard.in_a_row = 0
        except Exception as exc:
            probes.pool.restart_lap()
            probes.scan_guard.failed(type(exc).__name__)
            has_ended = True
        cost_s = self._clock() - now
        lasting_s = min(cost_s, self._slice_cost_s)
        self._slice_cost_s = cost_s
        self._slice_due_s = now + max(SLICE_INTERVAL_S, lasting_s / LARGEST_SHARE)
        if has_ended:  # the next lap is to end just before the sample after the coming one
            lap_s = probes.pool.slices * SLICE_INTERVAL_S
            next_lap_s = self._sample_due_s + self._interval_s - lap_s
            self._lap_begun_s = self._slice_due_s = max(self._slice_due_s, next_lap_s)

    def _finish_lap(self, steps: int, now: float) -> None:
        """Read the whole pool while nothing happens, and let go of the interpreter in between."""
        probes = self.probes
        pool = probes.pool
        if pool is None or not probes.scan_guard.is_on:
            return
        try:
            if pool.is_current(steps) and now - self._lap_begun_s < LAP_MAX_AGE_S:
                return
            pool.restart_lap()
            self._lap_begun_s = now
            while self._steps == steps and not pool.scan_slice(steps):
                time.sleep(0.001)
        except Exception as exc:
            probes.scan_guard.failed(type(exc).__name__)


def _nowhere(record: TraceRecord) -> None:
    """Where records go before a writer has been started: no probe may depend on one."""
    del record
