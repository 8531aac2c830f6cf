"""What the web layer is handed, and whether the newest View is young enough to be shown."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from exporter.clock import Clock, SystemClock
from exporter.errors import ExporterError
from exporter.records.view import View
from exporter.views.metrics.text_format import TextFormat
from exporter.web.live_feed import LiveFeed
from exporter.web.live_stream import LiveStreams

STALE_AFTER_S = 10.0
STALE_AFTER_INTERVALS = 10


class NoFreshView(ExporterError):  # noqa: N818 (a state, named as one)
    """There is no View that may be shown now; the text is the reason that a client reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What the web layer shows and whom it asks.

    `current_view`: the newest View, None before the first; must return at once. `render`: a View's
    text in a format; called in a thread of its own. `clock`: the one that stamps Views: one that
    stands still, as in a frozen replay, keeps its View fresh for ever. `live`: who looks at the
    live page; nothing happens there unless somebody feeds it. `telemetry_path`: where Prometheus
    scrapes. `reload`: has the settings loaded again; what comes of it is a ConfigError when they
    stay as they are. None where clients may not ask for it.
    """

    current_view: Callable[[], View | None]
    render: Callable[[View, TextFormat], bytes]
    clock: Clock
    telemetry_path: str = "/metrics"
    reload: Callable[[], Future[None]] | None = None
    live: LiveStreams = field(default_factory=lambda: LiveStreams(LiveFeed(1.0, SystemClock())))


class Freshness:
    """The newest View if it may be shown: absent beats stale."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._started_s = site.clock.monotonic()

    def view(self) -> View:
        """The newest View.

        Raises: NoFreshView: there is none yet, or it is older than 10 s and than 10 intervals.
        """
        self.check()
        if (view := self._site.current_view()) is None:
            raise NoFreshView("no View yet: the first samples are being taken")
        return view

    def check(self) -> None:
        """Raises: NoFreshView: the pipeline gave no View for 10 s and for 10 intervals."""
        view = self._site.current_view()
        since_s = view.published_monotonic_s if view else self._started_s
        limit_s = max(STALE_AFTER_S, STALE_AFTER_INTERVALS * (view.interval_s if view else 0))
        age_s = self._site.clock.monotonic() - since_s
        if age_s > limit_s:
            raise NoFreshView(f"no new View for {age_s:.1f} s (limit {limit_s:g} s)")
