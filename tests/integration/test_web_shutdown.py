"""A signal ends the process with exit code 0 in under 2 s, whatever connections are open."""

import http.client
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
from exporter.clock import SystemClock
from exporter.views.metrics.exposition import Exposition
from exporter.web.listener import listen
from exporter.web.routes import make_app
from exporter.web.server import WebServer
from exporter.web.site import Site
from tests.views import make_view

clock = SystemClock()
view = make_view(published_monotonic_s=clock.monotonic())
site = Site(current_view=lambda: view, render=Exposition().render, clock=clock)
listener = listen("127.0.0.1:0")
app = make_app(
    site,
    lambda: print(listener.getsockname()[1], flush=True),
    lambda: print("stopped", flush=True),
)
WebServer(app, listener).run()
print("returned", flush=True)
"""


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-W", "error", "-c", PROGRAM]
    with subprocess.Popen(
        command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as started:
        yield started
        started.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_ends_it_cleanly_with_open_connections(
    process: subprocess.Popen[str], number: signal.Signals
) -> None:
    assert process.stdout is not None
    port = int(process.stdout.readline())
    idle, silent, halfway = (
        http.client.HTTPConnection("127.0.0.1", port, timeout=5) for _ in range(3)
    )
    idle.request("GET", "/metrics")
    idle.getresponse().read()  # stays open: HTTP/1.1 keeps it alive
    silent.connect()
    halfway.connect()
    halfway.send(b"GET /metrics HTTP/1.1\r\nHost: ")

    signalled_s = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=10)
    took_s = time.monotonic() - signalled_s

    assert (process.returncode, out, err) == (0, "stopped\nreturned\n", "")
    assert took_s < 2
    for connection in (idle, silent, halfway):
        connection.close()
