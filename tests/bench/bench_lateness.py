"""How late samples are taken: the runner's loop at 100 ms, on a source that takes no time.

Usage: python -m tests.bench.bench_lateness [--samples N]
"""

import argparse
import statistics
import threading

from exporter.clock import SystemClock
from exporter.records.source import Reading
from exporter.runner import Runner

INTERVAL_S = 0.1


class Stopwatch:
    """A source that notes when it is read."""

    name = "stopwatch"
    interval_s = INTERVAL_S

    def __init__(self, samples: int) -> None:
        self.errors: dict[str, int] = {}
        self.times_s: list[float] = []
        self.is_done = threading.Event()
        self._clock = SystemClock()
        self._samples = samples

    def read(self) -> Reading | None:
        self.times_s.append(self._clock.monotonic())
        if len(self.times_s) == self._samples:
            self.is_done.set()
        return None

    def close(self) -> None:
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=600)
    arguments = parser.parse_args()
    stopwatch = Stopwatch(arguments.samples)
    runner = Runner([stopwatch], SystemClock())
    runner.start(lambda _reading: None)
    stopwatch.is_done.wait()
    runner.stop(timeout_s=1.0)
    first_s = stopwatch.times_s[0]
    late_ms = [
        1000 * (at_s - first_s - index * INTERVAL_S) for index, at_s in enumerate(stopwatch.times_s)
    ]
    p99_ms = statistics.quantiles(late_ms, n=100)[98]
    print(
        f"sampling lateness at 100 ms, {len(late_ms)} samples: median"
        f" {statistics.median(late_ms):.2f} ms, p99 {p99_ms:.2f} ms, max {max(late_ms):.2f} ms"
        " (budget p99 5 ms, aim 1 ms)"
    )


if __name__ == "__main__":
    main()
