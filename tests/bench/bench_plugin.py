"""What the plugin costs in the engine's thread, on the real Scheduler of the second environment.

Run: .venv-engine/bin/python -m tests.bench.bench_plugin

A pool of 20,000 blocks, 16 to 256 decoding requests with prompts of about 500 tokens. 40 steps lie
between two samples, as at 40 steps a second: 2.5 new blocks of 16 tokens per request. Times are of
`on_step` alone, the timer's own cost taken off; vLLM's schedule() stands beside them.
"""

import json
import math
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from exporter.plugin import hooks
from exporter.records.trace import TraceRecord

STEPS = 1200
STEPS_PER_SAMPLE = 40
KINDS = ("decode only", "with new requests", "with slice", "catching up", "with sample")

REGISTER = """
import json, sys, time
import logging, os, importlib.metadata  # what every process of vLLM has loaded before
start = time.perf_counter()
from exporter.plugin.entrypoint import register
loaded = time.perf_counter()
register()
print(json.dumps([loaded - start, time.perf_counter() - loaded]))
"""


def register_seconds() -> tuple[float, float]:
    """Medians over ten fresh processes: importing the entry point, and register() itself."""
    rows = []
    for _ in range(10):
        done = subprocess.run(
            [sys.executable, "-c", REGISTER],
            env={"VLLM_MEMORY_TRACE_DIR": "/nonexistent", "PYTHONPATH": "."},
            capture_output=True,
            check=True,
        )
        rows.append(json.loads(done.stdout))
    return statistics.median(r[0] for r in rows), statistics.median(r[1] for r in rows)


class Timed:
    """Stands where the hook finds the tap; times it and sorts the times by what was done."""

    def __init__(self, tap: Any, records: list[TraceRecord]) -> None:
        self._tap, self._records = tap, records
        self.times: dict[str, list[float]] = {kind: [] for kind in KINDS}

    def on_step(self, scheduler: Any, output: Any) -> None:
        self._records.clear()
        pool = self._tap.probes.pool
        lap = (len(pool._states), pool._head)
        start = time.perf_counter()
        self._tap.on_step(scheduler, output)
        seconds = time.perf_counter() - start
        if self._records:
            kind = "with sample"
        elif start >= self._tap._sample_due_s:
            kind = "catching up"
        elif (len(pool._states), pool._head) != lap:
            kind = "with slice"
        elif output.scheduled_new_reqs or self._tap.probes.flow._prefilling:
            kind = "with new requests"
        else:
            kind = "decode only"
        self.times[kind].append(seconds)


def timer_cost() -> float:
    """Seconds that two readings of the timer take by themselves."""
    rows = []
    for _ in range(2000):
        start = time.perf_counter()
        rows.append(time.perf_counter() - start)
    return statistics.median(rows)


def measure(model: Path, running: int) -> dict[str, list[float]]:
    """Times by kind of step, in seconds, with `running` requests decoding."""
    from tests.engine.driver import Load, answer
    from tests.engine.tapped import Tapped

    tapped = Tapped(model, blocks=20_000, max_seqs=running, max_tokens=8192)
    scheduler = tapped.scheduler
    tapped.clock = time.monotonic
    tap = tapped.attach(scheduler, interval_s=0.1)
    timed = Timed(tap, tapped.records)
    setattr(scheduler, hooks.TAP_ATTRIBUTE, timed)
    load = Load(seed=1, longest=900)
    vllm: list[float] = []
    for step in range(STEPS):
        while len(scheduler.requests) < running:
            scheduler.add_request(load.request(prompt=400, output=load.random.randrange(200, 800)))
        if step == STEPS // 4:
            for times in timed.times.values():  # what came before was prefill and churn
                times.clear()
        before = sum(map(sum, timed.times.values()))
        start = time.perf_counter()
        output = scheduler.schedule()
        vllm.append(time.perf_counter() - start - sum(map(sum, timed.times.values())) + before)
        scheduler.update_from_output(output, answer(scheduler, output, load.random))
        if step % STEPS_PER_SAMPLE == 0:
            tap._sample_due_s = tap._due_s = 0.0
        elif step % STEPS_PER_SAMPLE > STEPS_PER_SAMPLE // 2:
            tap._sample_due_s = math.inf
    return timed.times | {"vLLM's schedule()": vllm[STEPS // 4 :]}


def microseconds(times: Sequence[float], overhead_s: float) -> str:
    """Median and 99th percentile; nothing when that kind of step did not occur."""
    if not times:
        return "–"
    ordered = sorted(times)
    median, high = statistics.median(ordered), ordered[int(len(ordered) * 0.99)]
    return f"{(median - overhead_s) * 1e6:.1f} ({(high - overhead_s) * 1e6:.0f})"


def main() -> None:
    """Print one table."""
    from tests.engine.driver import write_model

    model = write_model(Path(tempfile.mkdtemp()) / "model")
    loading, registering = register_seconds()
    overhead_s = timer_cost()
    say(f"{platform.machine()}, Python {platform.python_version()}; µs, median (p99)")
    say(f"import of the entry point {loading * 1e6:.0f}, register() {registering * 1e6:.0f}")
    kinds = (*KINDS, "vLLM's schedule()")
    say("| running | " + " | ".join(kinds) + " |")
    say("| --- " * (len(kinds) + 1) + "|")
    for running in (16, 64, 256):
        times = measure(model, running)
        cells = [microseconds(times[kind], overhead_s) for kind in kinds]
        say(f"| {running} | " + " | ".join(cells) + " |")


def say(line: str) -> None:
    """Print at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
