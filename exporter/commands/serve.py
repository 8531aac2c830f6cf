"""`serve` and `demo`: the daemon, until SIGTERM or SIGINT."""

import logging
from collections.abc import Callable

from exporter import __version__, app
from exporter.commands.driver_release import toggled_by_sigusr1
from exporter.commands.reloading import Reloading
from exporter.settings import Settings
from exporter.views.metrics.exposition import Exposition
from exporter.web.listener import listen, url_of
from exporter.web.live_feed import LiveFeed
from exporter.web.live_stream import LiveStreams
from exporter.web.routes import make_app
from exporter.web.server import WebServer
from exporter.web.site import Site

log = logging.getLogger(__name__)


def run(settings: Settings, load_again: Callable[[], Settings]) -> None:
    """Serve until told to end; at SIGHUP take what `load_again` gives.

    Raises: ConfigError, RecordingError, ExporterError: it cannot start; the text says why.
    """
    listener = listen(settings.web_listen_address)
    running = app.build(settings)
    feed = LiveFeed(running.pipeline.interval_s, running.clock)
    running.pipeline.subscribe(feed.observe)
    live = LiveStreams(feed)
    reloading = Reloading(load_again, running.reload)
    site = Site(
        current_view=lambda: running.pipeline.view,
        render=Exposition().render,
        clock=running.clock,
        live=live,
        telemetry_path=settings.web_telemetry_path,
        reload=reloading.reload if settings.web_enable_lifecycle else None,
    )
    web_app = make_app(site, running.start, running.stop)
    if settings.replay is not None:
        log.warning("replaying %s: the figures are not of this machine", settings.replay)
    with toggled_by_sigusr1(running.toggle_driver_release), reloading.on_sighup():
        log.info("vllm-memory-exporter %s serves at %s", __version__, url_of(listener))
        WebServer(web_app, listener, live.end).run()
    log.info("ended")
