"""A driven scheduler wrapped by the plugin, with a clock and a record list of the test's own."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from exporter.plugin import hooks
from exporter.plugin.entrypoint import HOOKED_MODULES
from exporter.plugin.facts import engine_facts, identity
from exporter.plugin.scheduler_tap import SchedulerTap
from exporter.records.trace import KvRecord, TraceRecord
from tests.engine.driver import make_scheduler


class StepClock:
    """Monotonic seconds that move only when told to: what the plugin does then costs no time."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Tapped:
    """A scheduler, its tap and all records so far; one second passes per `pass_time()`."""

    def __init__(self, model: Path, worst_tables: int = 0, **options: Any) -> None:
        wrap_engine()
        self.clock: Callable[[], float] = StepClock()
        self.records: list[TraceRecord] = []
        self._worst_tables = worst_tables
        self.scheduler = make_scheduler(model, **options)
        self.tap = self.attach(self.scheduler)

    def attach(self, scheduler: Any, interval_s: float = 1.0) -> SchedulerTap:
        """Put a tap of our own into the place where the plugin's hook looks for it."""
        who = identity(scheduler.vllm_config, "test", "engine")
        tap = SchedulerTap(
            scheduler,
            who,
            engine_facts(scheduler.vllm_config),
            interval_s,
            self._worst_tables,
            self.clock,
        )
        tap.put = self.records.append
        setattr(self.scheduler, hooks.TAP_ATTRIBUTE, tap)
        self.tap = tap
        return tap

    def pass_time(self, seconds: float = 1.0) -> None:
        assert isinstance(self.clock, StepClock)
        self.clock.now_s += seconds

    def sample_now(self) -> list[KvRecord]:
        """What the file would end with if the process ended now."""
        return [record for record in self.tap.last() if isinstance(record, KvRecord)]

    def take(self) -> list[KvRecord]:
        """The samples since the last call."""
        taken, self.records[:] = list(self.records), []
        return [record for record in taken if isinstance(record, KvRecord)]


def wrap_engine() -> None:
    """Wrap vLLM's classes as the entry point does it, without environment variables."""
    for name in HOOKED_MODULES:
        importlib.import_module(name)
        hooks.wrap(sys.modules[name])
