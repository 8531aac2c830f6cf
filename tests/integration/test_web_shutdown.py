"""A signal ends the process with exit code 0, whatever connections are open."""

import http.client
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import os
import sys

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
server = WebServer(app, listener)
with server.ended_by_signals():
    if sys.argv[1:]:
        os.kill(os.getpid(), int(sys.argv[1]))
    server.run()
print("returned", flush=True)
"""


COMMAND = [sys.executable, "-W", "error", "-c", PROGRAM]
"""Given a signal's number, it sends that to itself before it serves."""

BOTH = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["TERM", "INT"])


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        COMMAND, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as started:
        yield started
        started.kill()


@BOTH
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

    process.send_signal(number)
    out, err = process.communicate(timeout=40)  # the open connections would keep it for 75 s

    assert (process.returncode, out, err) == (0, "stopped\nreturned\n", "")
    for connection in (idle, silent, halfway):
        connection.close()


@BOTH
def test_a_signal_before_it_serves_ends_it_as_cleanly(number: signal.Signals) -> None:
    ended = subprocess.run(
        [*COMMAND, str(number.value)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    port, *told = ended.stdout.splitlines()
    assert port.isdecimal()
    assert (ended.returncode, told, ended.stderr) == (0, ["stopped", "returned"], "")
