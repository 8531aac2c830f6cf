"""One named thread per source: deadlines, back-off, health. Hands readings on, knows no figures."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence

from exporter.clock import Clock
from exporter.errors import SourceUnavailable
from exporter.history.sample_histogram import DURATION_BOUNDS_S, SampleHistogram
from exporter.records.source import Reading, Source, SourceHealth

FIRST_BACKOFF_S = 1.0
MAX_BACKOFF_S = 30.0
HANG_S = 3.0
WATCH_INTERVAL_S = 1.0

Deliver = Callable[[Reading], None]

log = logging.getLogger(__name__)


class Runner:
    """Starts, watches and stops the threads that read sources."""

    def __init__(self, sources: Sequence[Source], clock: Clock) -> None:
        self._clock = clock
        self._stop = threading.Event()
        self._deliver: Deliver | None = None
        self._loops = {source: SourceLoop(source, clock) for source in sources}
        self._threads: dict[Source, threading.Thread] = {}
        self._watcher = threading.Thread(target=self._watch, name="source-watch", daemon=True)

    def start(self, deliver: Deliver) -> None:
        """Start reading; `deliver` gets each reading on its reading thread and must be quick."""
        self._deliver = deliver
        for source in self._loops:
            self._start(source, deliver)
        self._watcher.start()

    def replace(self, sources: Sequence[Source], timeout_s: float) -> list[str]:
        """Read these from now on, or from `start` on; those that are read already, at once.

        Sources that are not among them are closed. Returns the threads of those that still hang in
        a read after the timeout.
        """
        former = self._loops
        gone = former.keys() - set(sources)
        hanging = self._end(list(gone), timeout_s)
        self._loops = {
            source: former.get(source) or SourceLoop(source, self._clock) for source in sources
        }
        for source, loop in self._loops.items():
            if source in former:
                loop.hurry()
            elif self._deliver is not None:
                self._start(source, self._deliver)
        return hanging

    def hurry(self) -> None:
        """Read all sources now."""
        for loop in self._loops.values():
            loop.hurry()

    def stop(self, timeout_s: float) -> list[str]:
        """Stop reading; returns the threads that still hang in a read after the timeout.

        Those are daemons: they do not keep the process alive.
        """
        self._stop.set()
        return self._end(list(self._loops), timeout_s)

    def _start(self, source: Source, deliver: Deliver) -> None:
        loop = self._loops[source]
        self._threads[source] = threading.Thread(
            target=loop.run, args=(deliver,), name=f"source-{loop.name}", daemon=True
        )
        self._threads[source].start()

    def _end(self, sources: Sequence[Source], timeout_s: float) -> list[str]:
        for source in sources:
            self._loops[source].end()
        deadline_s = self._clock.monotonic() + timeout_s
        threads = [self._threads.pop(source) for source in sources if source in self._threads]
        for thread in threads:
            thread.join(max(0.0, deadline_s - self._clock.monotonic()))
        return [thread.name for thread in threads if thread.is_alive()]

    def health(self) -> tuple[SourceHealth, ...]:
        """Health of every source, in their order; may be asked from any thread."""
        return tuple(loop.health() for loop in self._loops.values())

    def _watch(self) -> None:
        while not self._stop.wait(WATCH_INTERVAL_S):
            for loop in self._loops.values():
                loop.report_hang()


class SourceLoop:
    """Reads one source at its interval until told to stop, and says how that goes."""

    def __init__(self, source: Source, clock: Clock, wake: threading.Event | None = None) -> None:
        """`wake` is what it waits on between reads."""
        self.name = source.name
        self._source = source
        self._clock = clock
        self._wake = wake or threading.Event()
        self._is_ended = False
        self._is_up = False
        self._down_reason: str | None = None
        self._is_hang_reported = False
        self._reading_since_s: float | None = None
        self._last_success_unix_s: float | None = None
        self._errors: Counter[str] = Counter()
        self._missed_samples = 0
        self._durations = SampleHistogram(DURATION_BOUNDS_S)
        self._backoff_s = 0.0

    def run(self, deliver: Deliver) -> None:
        """Read until told to end, then close the source."""
        deadline_s = self._clock.monotonic()
        while not self._is_ended:
            self.read_once(deliver)
            interval_s = max(self._source.interval_s, self._backoff_s)
            now_s = self._clock.monotonic()
            late_s = now_s - (deadline_s + interval_s)
            self._missed_samples += max(0, int(late_s / self._source.interval_s))
            deadline_s = max(deadline_s + interval_s, now_s)
            if self._wake.wait(deadline_s - now_s):
                self._wake.clear()
                self._backoff_s = 0.0
                deadline_s = self._clock.monotonic()
        self._source.close()

    def hurry(self) -> None:
        """Read now, whenever the next read was due: what it is to do may have changed."""
        self._wake.set()

    def end(self) -> None:
        """Make `run` end after the read that it is in."""
        self._is_ended = True
        self._wake.set()

    def read_once(self, deliver: Deliver) -> None:
        """Read now and hand on what came; a failure is remembered, never raised."""
        started_s = self._reading_since_s = self._clock.monotonic()
        try:
            reading = self._source.read()
        except SourceUnavailable as exc:
            self._failed(exc.reason, str(exc))
            if not exc.backs_off:
                self._backoff_s = FIRST_BACKOFF_S
        except Exception as exc:  # noqa: BLE001 (a fault of one source must not end its thread)
            self._failed("internal_error", f"{type(exc).__name__}: {exc}", exc)
        else:
            self._succeeded()
            if reading is not None:
                deliver(reading)
        finally:
            self._reading_since_s = None
            self._durations.observe(self._clock.monotonic() - started_s)

    def health(self) -> SourceHealth:
        """How it goes now; copies first what the reading thread may be adding to."""
        errors = Counter(dict(self._errors))
        errors.update(dict(self._source.errors))
        return SourceHealth(
            name=self.name,
            is_up=self._is_up and not self._is_hanging(),
            last_success_unix_s=self._last_success_unix_s,
            errors=dict(errors),
            missed_samples=self._missed_samples,
            durations=self._durations.snapshot(),
        )

    def report_hang(self) -> None:
        """Say once when a read does not come back."""
        if self._is_hanging() and not self._is_hang_reported:
            self._is_hang_reported = True
            log.error("source %s: a read has not come back for %.0f s", self.name, HANG_S)

    def _is_hanging(self) -> bool:
        since_s = self._reading_since_s
        return since_s is not None and self._clock.monotonic() - since_s > HANG_S

    def _succeeded(self) -> None:
        if self._down_reason is not None or self._is_hang_reported:
            log.info("source %s: back", self.name)
        self._is_up = True
        self._down_reason = None
        self._is_hang_reported = False
        self._backoff_s = 0.0
        self._last_success_unix_s = self._clock.unix_ns() / 1e9

    def _failed(self, reason: str, text: str, fault: Exception | None = None) -> None:
        if self._down_reason != reason:
            log.warning("source %s: down: %s", self.name, text, exc_info=fault)
        self._is_up = False
        self._down_reason = reason
        self._errors[reason] += 1
        self._backoff_s = min(MAX_BACKOFF_S, max(FIRST_BACKOFF_S, 2 * self._backoff_s))
