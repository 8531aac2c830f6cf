"""`serve` and `demo`: the daemon, until SIGTERM or SIGINT."""

import logging
import signal
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from starlette.types import ASGIApp

from exporter import __version__, app
from exporter.commands.errands import Errands
from exporter.commands.reloading import reload
from exporter.log_format import configure
from exporter.settings import Settings
from exporter.views.metrics.exposition import Exposition
from exporter.web.listener import listen, url_of
from exporter.web.live_feed import LiveFeed
from exporter.web.live_stream import LiveStreams
from exporter.web.routes import make_app
from exporter.web.server import WebServer
from exporter.web.site import Site

if TYPE_CHECKING:
    from exporter.web.guarded import Guarded
    from exporter.web.web_config import WebConfig

log = logging.getLogger(__name__)


def run(settings: Settings, load_again: Callable[[], Settings]) -> None:
    """Serve until told to end; at SIGHUP take what `load_again` gives, at SIGUSR1 let go of NVML.

    Raises: ConfigError, RecordingError, ExporterError: it cannot start; the text says why.
    """
    listener = listen(settings.web_listen_address)
    running = app.build(settings)
    feed = LiveFeed(running.pipeline.interval_s, running.clock)
    running.pipeline.subscribe(feed.observe)
    live = LiveStreams(feed)
    guarded: Guarded | None = None

    def load() -> "tuple[Settings, WebConfig | None]":
        return load_again(), guarded.read_again() if guarded else None

    def take(loaded: "tuple[Settings, WebConfig | None] | None") -> None:
        changed, web_config = loaded or (None, None)
        running.reload(changed)
        if changed is not None:
            configure(changed.log_level, changed.log_format)
        if guarded is not None and web_config is not None:
            guarded.take(web_config)

    errands = Errands()
    reloading = partial(reload, load, take)
    site = Site(
        current_view=lambda: running.pipeline.view,
        render=Exposition().render,
        clock=running.clock,
        live=live,
        telemetry_path=settings.web_telemetry_path,
        reload=partial(errands.ask, reloading) if settings.web_enable_lifecycle else None,
    )
    web_app = make_app(site, running.start, running.stop)
    if settings.web_config_file is not None:
        guarded = _guarded(web_app, settings.web_config_file)
    tls = guarded.tls if guarded else None
    if settings.replay is not None:
        log.warning("replaying %s: the figures are not of this machine", settings.replay)
    url = url_of(listener, "https" if tls else "http")
    server = WebServer(guarded or web_app, listener, live.end, tls)
    with (
        server.ended_by_signals(),
        errands.at_signals(
            {signal.SIGHUP: reloading, signal.SIGUSR1: running.toggle_driver_release}
        ),
    ):
        log.info("vllm-memory-exporter %s serves at %s", __version__, url)
        server.run()
    log.info("ended")


def _guarded(web_app: ASGIApp, file: str) -> "Guarded":
    """Imported only here: bcrypt and YAML are large, and most run without a web config."""
    from exporter.web.guarded import Guarded

    return Guarded(web_app, file)
