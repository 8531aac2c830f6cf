"""Wires sources, runner and pipeline, and says in which order they start and stop."""

import logging
import threading
from pathlib import Path

from exporter.analysis.conflict_signs import ConflictRules
from exporter.clock import Clock, ManualClock, SystemClock
from exporter.errors import ConfigError
from exporter.pipeline import Pipeline
from exporter.records.process import RecordedProcesses
from exporter.records.source import Source
from exporter.runner import Runner
from exporter.settings import Settings
from exporter.sources.engine_metrics import EngineMetricsSource
from exporter.sources.nvml import NvmlSource
from exporter.sources.nvml_events import NvmlEventsSource
from exporter.sources.nvml_gpm import NvmlGpmSource
from exporter.sources.nvml_session import NvmlSession
from exporter.sources.nvml_slow import NvmlSlowSource
from exporter.sources.process_facts import LocalProcesses
from exporter.sources.recording import Recording
from exporter.sources.replay import ReplaySource
from exporter.sources.trace import TraceSource

TRACE_INTERVAL_S = 0.25
STOP_TIMEOUT_S = 0.5

log = logging.getLogger(__name__)


class App:
    """The running program without its HTTP side; `start` once, then `stop` once."""

    def __init__(
        self,
        clock: Clock,
        pipeline: Pipeline,
        runner: Runner,
        nvml: NvmlSession | None = None,
    ) -> None:
        self._nvml = nvml
        self.clock = clock
        self.pipeline = pipeline
        self._runner = runner
        self._stop = threading.Event()
        self._ticking = threading.Thread(
            target=pipeline.run, args=(self._stop,), name="pipeline", daemon=True
        )

    def start(self) -> None:
        """Start ticking, then reading."""
        self._ticking.start()
        self._runner.start(self.pipeline.offer)

    def toggle_driver_release(self) -> None:
        """Let go of the NVIDIA driver within two seconds, or take it up again."""
        if self._nvml is not None:
            self._nvml.toggle_release()

    def stop(self) -> None:
        """Stop reading and ticking; gives up after half a second on a read that hangs."""
        self._stop.set()
        self.pipeline.wake()
        for name in self._runner.stop(STOP_TIMEOUT_S):
            log.warning("%s hangs in a read; leaving it behind", name)
        self._ticking.join(STOP_TIMEOUT_S)


class FrozenApp:
    """A recording's first seconds, fed at once; afterwards nothing moves, not even the clock."""

    def __init__(
        self, recording: Recording, freeze_at_s: float, rules: ConflictRules, start_unix_ns: int
    ) -> None:
        self.clock = ManualClock(start_unix_ns)
        self.pipeline = Pipeline(
            self.clock,
            recording.header.interval_s,
            replay=recording.header.name,
            rules=rules,
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

    def stop(self) -> None:
        """Nothing runs."""


def build(settings: Settings) -> App | FrozenApp:
    """The app that the settings ask for; nothing is read yet but a recording.

    Raises: RecordingError: the recording cannot be used. ConfigError: an extra is missing.
    """
    if settings.replay is None:
        return _live(settings)
    recording = Recording.load(Path(settings.replay))
    if settings.replay_freeze_at_s is not None:
        now_unix_ns = SystemClock().unix_ns()
        return FrozenApp(recording, settings.replay_freeze_at_s, _rules(settings), now_unix_ns)
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
    return App(clock, pipeline, runner)


def build_unpaced(settings: Settings, replay: str) -> FrozenApp:
    """A recording's first lap (or what `replay_freeze_at_s` leaves of it), at its own times.

    Raises: RecordingError: the recording cannot be used.
    """
    recording = Recording.load(Path(replay))
    until_s = recording.events[-1].at_s
    if settings.replay_freeze_at_s is not None:
        until_s = min(until_s, settings.replay_freeze_at_s)
    return FrozenApp(recording, until_s, _rules(settings), recording.begin_unix_ns)


def _rules(settings: Settings) -> ConflictRules:
    return ConflictRules(expected_processes=frozenset(settings.conflicts_expected_processes))


def _live(settings: Settings) -> App:
    clock = SystemClock()
    sources: list[Source] = []
    session = NvmlSession()
    if settings.nvml_enabled:
        sources.append(NvmlSource(settings.nvml_interval_s, clock, session=session))
        sources.append(NvmlSlowSource(session, clock))
        sources.append(NvmlEventsSource(session, clock))
        if settings.nvml_gpm:
            sources.append(NvmlGpmSource(session, clock))
    if settings.trace_paths:
        sources.append(TraceSource(settings.trace_paths, TRACE_INTERVAL_S, clock))
    sources.extend(EngineMetricsSource(url, clock) for url in settings.engine_urls)
    if settings.kubernetes_pod_resources is not None:
        sources.append(_pod_resources(settings.kubernetes_pod_resources, clock))
    if not settings.trace_paths and not settings.engine_urls:
        log.warning(
            "no --trace.path: only GPU figures are served; to see KV cache and page tables,"
            " give the directory that the vLLM plugin writes to (its VLLM_MEMORY_TRACE_DIR),"
            " or without the plugin vLLM's own metrics with --engine.url"
        )
    runner = Runner(sources, clock)
    pipeline = Pipeline(
        clock,
        settings.nvml_interval_s,
        health=runner.health,
        rules=_rules(settings),
        processes=LocalProcesses(),
        configured_unix_s=clock.unix_ns() / 1e9,
    )
    return App(clock, pipeline, runner, session)


def _pod_resources(socket_path: str, clock: Clock) -> Source:
    """The source that alone needs gRPC, imported only here: it is large and comes with an extra."""
    try:
        from exporter.sources.pod_resources import PodResourcesSource
    except ImportError as exc:
        raise ConfigError(
            f"--kubernetes.pod-resources: gRPC cannot be loaded ({exc});"
            " pip install 'vllm-memory-exporter[kubernetes]'"
        ) from exc
    return PodResourcesSource(socket_path, clock)
