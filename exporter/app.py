"""Wires sources, runner and pipeline, and says in which order they start and stop."""

import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from exporter.analysis.conflict_signs import ConflictRules
from exporter.clock import Clock, ManualClock, SystemClock
from exporter.pipeline import Pipeline
from exporter.records.process import RecordedProcesses
from exporter.runner import Runner
from exporter.settings import Settings, require_changeable
from exporter.source_set import SourceSet
from exporter.sources.process_facts import LocalProcesses

if TYPE_CHECKING:
    from exporter.sources.recording import Recording

STOP_TIMEOUT_S = 0.5

log = logging.getLogger(__name__)


class App:
    """The running program without its HTTP side; `start` once, then `stop` once."""

    def __init__(
        self,
        clock: Clock,
        pipeline: Pipeline,
        runner: Runner,
        settings: Settings,
        source_set: SourceSet | None = None,
    ) -> None:
        """`source_set` is None for a replay, which has its one source for good."""
        self.clock = clock
        self.pipeline = pipeline
        self._runner = runner
        self._settings = settings
        self._source_set = source_set
        self._lock = threading.Lock()  # over start, reload and stop
        self._stop = threading.Event()
        self._ticking = threading.Thread(
            target=pipeline.run, args=(self._stop,), name="pipeline", daemon=True
        )

    def start(self) -> None:
        """Start ticking, then reading."""
        with self._lock:
            self._ticking.start()
            self._runner.start(self.pipeline.offer)

    def toggle_driver_release(self) -> None:
        """Let go of the NVIDIA driver within two seconds, or take it up again."""
        if self._source_set is not None:
            self._source_set.session.toggle_release()
            self._runner.hurry()

    def reload(self, settings: Settings | None) -> None:
        """Go on with other settings, with all windows and counts; None: they could not be read.

        Raises: ConfigError: they cannot be taken while it runs; nothing has changed then.
        """
        with self._lock:
            if self._stop.is_set():
                return
            loaded_unix_s = None
            try:
                if settings is not None:
                    self._take(settings)
                    loaded_unix_s = self.clock.unix_ns() / 1e9
            finally:
                self.pipeline.note_reload(loaded_unix_s)

    def stop(self) -> None:
        """Stop reading and ticking; gives up after half a second on a read that hangs."""
        with self._lock:
            self._stop.set()
            self.pipeline.wake()
            self._warn_of(self._runner.stop(STOP_TIMEOUT_S))
            self._ticking.join(STOP_TIMEOUT_S)

    def _take(self, settings: Settings) -> None:
        require_changeable(self._settings, settings)
        interval_s = self.pipeline.interval_s
        if self._source_set is not None:
            sources = self._source_set.of(settings)
            self._source_set.adjust(settings)
            self._warn_of(self._runner.replace(sources, STOP_TIMEOUT_S))
            interval_s = settings.nvml_interval_s
        self.pipeline.configure(interval_s, _rules(settings))
        self._settings = settings

    @staticmethod
    def _warn_of(hanging: list[str]) -> None:
        for name in hanging:
            log.warning("%s hangs in a read; leaving it behind", name)


class FrozenApp:
    """A recording's first seconds, fed at once; afterwards nothing moves, not even the clock."""

    def __init__(
        self, recording: "Recording", freeze_at_s: float, settings: Settings, start_unix_ns: int
    ) -> None:
        self._settings = settings
        self.clock = ManualClock(start_unix_ns)
        self.pipeline = Pipeline(
            self.clock,
            recording.header.interval_s,
            replay=recording.header.name,
            rules=_rules(settings),
            processes=RecordedProcesses(),
        )
        self._recording = recording
        self._freeze_at_s = freeze_at_s

    def start(self) -> None:
        """Feed every reading at its own time."""
        elapsed_s = 0.0
        for event in self._recording.events_until(self._freeze_at_s, self.clock.unix_ns()):
            if event.at_s > elapsed_s:
                self.pipeline.tick()
                self.clock.advance(event.at_s - elapsed_s)
                elapsed_s = event.at_s
            self.pipeline.offer(event.reading)
        self.pipeline.tick()

    def toggle_driver_release(self) -> None:
        """There is no driver to let go of."""

    def reload(self, settings: Settings | None) -> None:
        """Nothing moves, so nothing can change but the log.

        Raises: ConfigError: the settings ask for something else than this replay.
        """
        if settings is not None:
            require_changeable(self._settings, settings)

    def stop(self) -> None:
        """Nothing runs."""


def build(settings: Settings) -> App | FrozenApp:
    """The app that the settings ask for; nothing is read yet but a recording.

    Raises: RecordingError: the recording cannot be used. ConfigError: an extra is missing.
    """
    if settings.replay is None:
        return _live(settings)
    from exporter.sources.recording import Recording  # a live daemon needs neither
    from exporter.sources.replay import ReplaySource

    recording = Recording.load(Path(settings.replay))
    if settings.replay_freeze_at_s is not None:
        now_unix_ns = SystemClock().unix_ns()
        return FrozenApp(recording, settings.replay_freeze_at_s, settings, now_unix_ns)
    clock = SystemClock()
    runner = Runner([ReplaySource(recording, clock)], clock)
    pipeline = Pipeline(
        clock,
        recording.header.interval_s,
        replay=recording.header.name,
        health=runner.health,
        rules=_rules(settings),
        processes=RecordedProcesses(),
        configured_unix_s=clock.unix_ns() / 1e9,
    )
    return App(clock, pipeline, runner, settings)


def build_unpaced(settings: Settings, replay: str) -> FrozenApp:
    """A recording's first lap (or what `replay_freeze_at_s` leaves of it), at its own times.

    Raises: RecordingError: the recording cannot be used.
    """
    from exporter.sources.recording import Recording

    recording = Recording.load(Path(replay))
    until_s = recording.events[-1].at_s
    if settings.replay_freeze_at_s is not None:
        until_s = min(until_s, settings.replay_freeze_at_s)
    return FrozenApp(recording, until_s, settings, recording.begin_unix_ns)


def _rules(settings: Settings) -> ConflictRules:
    return ConflictRules(expected_processes=frozenset(settings.conflicts_expected_processes))


def _live(settings: Settings) -> App:
    clock = SystemClock()
    source_set = SourceSet(clock)
    runner = Runner(source_set.of(settings), clock)
    source_set.adjust(settings)
    pipeline = Pipeline(
        clock,
        settings.nvml_interval_s,
        health=runner.health,
        rules=_rules(settings),
        processes=LocalProcesses(),
        configured_unix_s=clock.unix_ns() / 1e9,
    )
    return App(clock, pipeline, runner, settings, source_set)
