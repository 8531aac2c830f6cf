"""Viewers that do not read: passed over, then dropped, with nothing piling up for them."""

import logging
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from exporter.clock import ManualClock
from exporter.web.live_feed import LiveFeed
from exporter.web.live_position import Stream
from exporter.web.live_stream import LiveStreams
from tests.live_client import Viewer
from tests.live_server import DEADLINE_S, serving
from tests.live_views import START_S, live_view

NEVER_S = 3600.0
GPUS = tuple(range(512))
REQUEST = b"GET /api/live HTTP/1.1\r\nHost: x\r\n\r\n"


@dataclass
class Served:
    """A server whose ticks a test makes."""

    feed: LiveFeed
    streams: LiveStreams
    port: int
    ticks: int = 0
    open: list[socket.socket] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def tick(self) -> None:
        """One tick whose event is a full one for all: the rows are others than before."""
        self.ticks += 1
        gpus = GPUS[self.ticks % 2 :]
        self.feed.observe(live_view(gpus=gpus, at_s=START_S + self.ticks / 2))

    def connect(self, receive_bytes: int) -> socket.socket:
        """A viewer with room for this many bytes (the kernel doubles it)."""
        viewer = socket.socket()
        viewer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        viewer.settimeout(DEADLINE_S)
        viewer.connect(("127.0.0.1", self.port))
        viewer.sendall(REQUEST)
        return viewer


@pytest.fixture
def drop_after_s() -> float:
    return NEVER_S


@pytest.fixture
def served(drop_after_s: float, caplog: pytest.LogCaptureFixture) -> Iterator[Served]:
    clock = ManualClock(0, START_S)
    feed = LiveFeed(0.5, clock)
    streams = LiveStreams(feed, drop_after_s)
    with serving(streams, clock) as port:
        served = Served(feed, streams, port)
        yield served
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    for connection in served.open:
        connection.close()


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)  # between two looks


def test_what_a_viewer_does_not_read_is_not_kept_for_it(served: Served) -> None:
    """60 ticks of more than 100 kB: it gets what was under way, then the newest."""
    served.tick()
    asleep = served.connect(receive_bytes=1 << 16)
    wait_until(lambda: served.streams.viewers == 1)
    with Viewer(served.address) as awake:
        events = awake.events()
        for _ in range(60):
            served.tick()
            next(events)
    made = served.feed.event(Stream(0, 0), None)
    assert made is not None
    assert len(made[0]) > 100_000
    newest = b"id: %s\n" % str(made[1]).encode()
    stream = bytearray()
    while newest not in stream:
        stream += asleep.recv(1 << 20)
    asleep.close()
    assert len(stream) < 10 * len(made[0])


@pytest.mark.parametrize("drop_after_s", [0.25])
def test_a_viewer_that_does_not_read_is_dropped_and_the_others_are_not(served: Served) -> None:
    served.tick()
    asleep = served.connect(receive_bytes=4096)
    with Viewer(served.address) as awake:
        events = awake.events()
        next(events)
        wait_until(lambda: served.streams.viewers == 2)
        while served.streams.viewers == 2:
            served.tick()
            next(events)
        served.tick()
        next(events)
        assert served.streams.viewers == 1
    with suppress(ConnectionResetError):
        while asleep.recv(1 << 20):  # what the kernels had, and then the end
            pass
    asleep.close()


@pytest.mark.parametrize("how", ["close", "half", "reset"])
def test_a_viewer_that_goes_leaves_nothing_behind(served: Served, how: str) -> None:
    served.tick()
    viewer = served.connect(receive_bytes=1 << 16)
    wait_until(lambda: served.streams.viewers == 1)
    if how == "half":
        viewer.shutdown(socket.SHUT_WR)
    elif how == "reset":
        viewer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if how != "half":
        viewer.close()
    wait_until(lambda: served.streams.viewers == 0)
    assert served.feed.on_tick is None
    viewer.close()


def test_the_end_does_not_wait_for_who_does_not_read(served: Served) -> None:
    """The fixture ends the server, which would log that it cancels a stream after a second."""
    asleep = served.connect(receive_bytes=4096)
    with Viewer(served.address) as awake:
        events = awake.events()
        wait_until(lambda: served.streams.viewers == 2)
        for _ in range(20):
            served.tick()
            next(events)
    wait_until(lambda: served.streams.viewers == 1)
    served.open.append(asleep)
