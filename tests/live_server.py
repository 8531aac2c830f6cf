"""The real web server around a live feed in this process, for tests that make its ticks."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from exporter.clock import Clock
from exporter.views.metrics.exposition import Exposition
from exporter.web.listener import listen
from exporter.web.live_stream import LiveStreams
from exporter.web.routes import make_app
from exporter.web.server import WebServer
from exporter.web.site import Site

DEADLINE_S = 30.0


@contextmanager
def serving(streams: LiveStreams, clock: Clock) -> Iterator[int]:
    """Its port; when it has ended nobody looks any more."""
    site = Site(current_view=lambda: None, render=Exposition().render, clock=clock, live=streams)
    listener = listen("127.0.0.1:0")
    server = WebServer(make_app(site, lambda: None, lambda: None), listener, streams.end)
    thread = threading.Thread(target=server.run, name="web")
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.request_stop()
        thread.join(timeout=DEADLINE_S)
    assert not thread.is_alive()
    assert streams.viewers == 0
