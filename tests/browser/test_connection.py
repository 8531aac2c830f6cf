"""A connection that is lost and comes back, a server that starts again, and pausing."""

import json
import re
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from exporter.clock import ManualClock
from exporter.web.live_feed import LiveFeed
from exporter.web.live_stream import LiveStreams
from tests.browser.conftest import OpenPage
from tests.browser.cut_line import cut_line
from tests.browser.live_page import LivePage
from tests.browser.scenes import gpu, write
from tests.daemon import Daemon, running
from tests.live_client import Viewer
from tests.live_server import serving
from tests.live_views import START_S, live_view

LOST = re.compile("ERR_|Failed to load resource")  # what Chromium says of a connection that broke
GREEN = (34, 168, 132)  # viridis of 0.6


@pytest.fixture
def steady(tmp_path: Path) -> Path:
    """One GPU at 0.6, for ever."""
    return write(tmp_path / "steady.jsonl", [(tick / 2, [gpu(0, 6000)], []) for tick in range(4)])


@pytest.fixture
def daemon(steady: Path) -> Iterator[Daemon]:
    """Plays it; ends after the pages that look at it."""
    with running("serve", "--replay", str(steady)) as playing:
        yield playing


def tick_of(daemon: Daemon) -> int:
    """When the daemon's newest View was made, in ms."""
    status, body = daemon.get("/api/view")
    assert status == 200
    return int(json.loads(body)["ts_unix_ns"]) // 10**6


def wait_for_ticks(daemon: Daemon, ticks: int) -> None:
    """Until the daemon made some more Views."""
    begin_ms = tick_of(daemon)
    while tick_of(daemon) < begin_ms + 500 * ticks:
        time.sleep(0.05)  # between two polls


def newest(page: LivePage) -> int:
    """The newest column that is drawn."""
    return page.wait_for_paint("device_pressure")


def sampled(page: LivePage) -> list[bool]:
    """For each of the columns shown, newest first, whether it has the colour of the steady GPU."""
    found = []
    for age in range(120):
        red, green, blue, _ = page.colour(0, age)
        near = zip((red, green, blue), GREEN, strict=True)
        found.append(all(abs(one - two) <= 1 for one, two in near))
    return found


def assert_no_hole(page: LivePage, at_least: int) -> None:
    """Samples without a gap, from the newest one back to the first."""
    found = sampled(page)
    count = found.index(False)
    assert count >= at_least
    assert not any(found[count:])


def test_a_lost_connection_is_told_and_its_hole_is_filled(
    daemon: Daemon, open_page: OpenPage
) -> None:
    with cut_line(daemon.address) as line:
        page = open_page(line.address, "?metric=device_pressure")
        page.expected_errors = LOST
        before = newest(page)
        line.cut()
        page.wait_until("lost")
        assert "Connection lost, trying again. What you see ended at " in page.text("#lost")
        wait_for_ticks(daemon, 4)
        line.mend()
        page.wait_for_paint("device_pressure", after=before + 3)
        page.wait_until("live")
        assert page.at("#lost").is_hidden()
        assert_no_hole(page, at_least=4)


def test_a_server_that_starts_again_is_followed_and_what_it_lacks_is_hatched(
    steady: Path, open_page: OpenPage
) -> None:
    with running("serve", "--replay", str(steady)) as daemon:
        page = open_page(daemon.address, "?metric=device_pressure")
        page.expected_errors = LOST
        newest(page)
        daemon.terminate()
        page.wait_until("lost")
        address = daemon.address
    again = ("serve", "--replay", str(steady), "--web.listen-address", address)
    with running(*again) as daemon:
        page.wait_until("live")
        wait_for_ticks(daemon, 2)
        page.wait_for("document.querySelector('#lost').hidden")
        assert_no_hole(page, at_least=1)
        assert not all(sampled(page))


def test_a_connection_on_which_nothing_comes_is_told(daemon: Daemon, open_page: OpenPage) -> None:
    page = open_page(daemon.address, "?metric=device_pressure")
    page.expected_errors = LOST
    daemon.process.send_signal(signal.SIGSTOP)
    page.wait_until("lost")
    daemon.process.send_signal(signal.SIGCONT)
    page.wait_until("live")


def test_a_viewer_too_many_is_told_why_and_comes_in_when_there_is_room(
    daemon: Daemon, open_page: OpenPage
) -> None:
    with ExitStack() as stack:
        for _ in range(64):
            stack.enter_context(Viewer(daemon.address))
        page = open_page(daemon.address, "?metric=device_pressure", is_drawn=False)
        page.expected_errors = LOST
        page.wait_for("document.getElementById('lost').textContent.includes('64 viewers')")
    page.wait_until("live")


def test_an_exporter_that_stands_still_is_told_until_it_goes_on(open_page: OpenPage) -> None:
    clock = ManualClock(0, START_S)
    feed = LiveFeed(0.5, clock)
    with serving(LiveStreams(feed), clock) as port:
        feed.observe(live_view())
        page = open_page(f"127.0.0.1:{port}", "?metric=device_pressure")
        page.wait_until("live")
        assert page.at("#lost").is_hidden()
        clock.advance(125)
        page.wait_until("stale")
        assert page.text("#lost") == (
            "The exporter stands still: its newest sample is 2 min 5 s old."
        )
        assert page.text("#state") == "No new samples"
        feed.observe(live_view(at_s=START_S + 125))
        page.wait_for("document.querySelector('#lost').hidden")
        page.wait_until("live")
        page.close()


def test_a_paused_page_stands_still_and_goes_on_without_a_hole(
    daemon: Daemon, open_page: OpenPage
) -> None:
    page = open_page(daemon.address, "?metric=device_pressure")
    page.page.keyboard.press("p")
    page.wait_until("paused")
    page.wait_for_frames()
    held = newest(page)
    wait_for_ticks(daemon, 3)
    assert newest(page) == held
    assert page.text("#state") == "Paused"
    page.choose("memory controller")  # another figure of the same moment
    assert page.wait_for_paint("memory_controller") == held
    page.choose("device pressure")
    assert newest(page) == held
    page.at("#pause").click()
    page.wait_for_paint("device_pressure", after=held + 2)
    assert_no_hole(page, at_least=4)
