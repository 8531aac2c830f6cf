"""Which sources the settings ask for; when these change, a source that stays is the same object."""

import logging
from collections.abc import Callable, Hashable

from exporter.clock import Clock
from exporter.errors import ConfigError
from exporter.records.source import Source
from exporter.settings import Settings
from exporter.sources.engine_url import EngineUrl
from exporter.sources.nvml import NvmlSource
from exporter.sources.nvml_events import NvmlEventsSource
from exporter.sources.nvml_session import NvmlSession
from exporter.sources.nvml_slow import NvmlSlowSource
from exporter.sources.trace import TraceSource

TRACE_INTERVAL_S = 0.25

log = logging.getLogger(__name__)


class SourceSet:
    """Makes sources of this machine, and hands out the same ones again for the same settings.

    So what a source counted, which handles it holds and how far it read its files outlives a change
    of settings. `session`: what the sources of NVML share.
    """

    def __init__(self, clock: Clock) -> None:
        self.session = NvmlSession()
        self._clock = clock
        self._made: dict[Hashable, Source] = {}
        self._nvml = NvmlSource(Settings().nvml_interval_s, clock, session=self.session)
        self._trace = TraceSource((), TRACE_INTERVAL_S, clock)

    def of(self, settings: Settings) -> list[Source]:
        """The sources that these settings ask for; none is read or changed yet.

        Raises: ConfigError: an extra is missing.
        """
        wanted = {key: self._made.get(key) or make() for key, make in self._makers(settings)}
        self._made = wanted
        return list(wanted.values())

    def adjust(self, settings: Settings) -> None:
        """Tell the sources that stay what changed for them; any thread may call it."""
        self._nvml.interval_s = settings.nvml_interval_s
        if settings.trace_paths:
            self._trace.follow(settings.trace_paths)
        if not settings.trace_paths and not settings.engine_urls:
            log.warning(
                "no --trace.path: only GPU figures are served; to see KV cache and page tables,"
                " give the directory that the vLLM plugin writes to (its VLLM_MEMORY_TRACE_DIR),"
                " or without the plugin vLLM's own metrics with --engine.url"
            )

    def _makers(self, settings: Settings) -> list[tuple[Hashable, Callable[[], Source]]]:
        session, clock = self.session, self._clock
        makers: list[tuple[Hashable, Callable[[], Source]]] = []
        if settings.nvml_enabled:
            makers += [
                ("nvml", lambda: self._nvml),
                ("nvml_slow", lambda: NvmlSlowSource(session, clock)),
                ("nvml_events", lambda: NvmlEventsSource(session, clock)),
            ]
            if settings.nvml_gpm:
                makers.append(("nvml_gpm", lambda: _gpm(session, clock)))
        if settings.trace_paths:
            makers.append(("trace", lambda: self._trace))
        for url in settings.engine_urls:
            makers.append((url, lambda url=url: _engine_metrics(url, clock)))  # type: ignore[misc]
        if (socket_path := settings.kubernetes_pod_resources) is not None:
            makers.append((("pods", socket_path), lambda: _pod_resources(socket_path, clock)))
        return makers


# What few ask for is imported only for them: a daemon's memory is what it uses.


def _gpm(session: NvmlSession, clock: Clock) -> Source:
    from exporter.sources.nvml_gpm import NvmlGpmSource

    return NvmlGpmSource(session, clock)


def _engine_metrics(url: EngineUrl, clock: Clock) -> Source:
    from exporter.sources.engine_metrics import EngineMetricsSource

    return EngineMetricsSource(url, clock)


def _pod_resources(socket_path: str, clock: Clock) -> Source:
    """The source that alone needs gRPC, which comes with an extra."""
    try:
        from exporter.sources.pod_resources import PodResourcesSource
    except ImportError as exc:
        raise ConfigError(
            f"--kubernetes.pod-resources: gRPC cannot be loaded ({exc});"
            " pip install 'vllm-memory-exporter[kubernetes]'"
        ) from exc
    return PodResourcesSource(socket_path, clock)
