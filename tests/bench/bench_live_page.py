"""The live page in a real browser: sample to pixel, frames, heap over 30 minutes, bytes.

Usage: python -m tests.bench.bench_live_page [--seconds S]; needs Debian's chromium.
"""

import argparse
import json
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from exporter.web.static_files import DIRECTORY
from tests.browser.conftest import FLAGS
from tests.browser.fleet import fleet
from tests.daemon import running
from tests.live_client import Viewer

PROBE = Path(__file__).with_name("live_page.js")
GPUS_PER_ENGINE = 8
RECORDED_DELTAS = 24
MINUTES = 30
TICKS_A_MINUTE = 120
TICKS_A_FRAME = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="of watching 64 GPUs live")
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=[*FLAGS, "--enable-precise-memory-info"]
        )
        size_of_page()
        for gpus in (64, 512):
            path = fleet(Path(directory) / f"{gpus}.jsonl", gpus, GPUS_PER_ENGINE, seconds=30)
            with running("serve", "--replay", str(path)) as daemon:
                if gpus == 64:
                    live(browser, daemon.address, seconds)
                recorded = record(daemon.address)
                frames(browser, daemon.address, gpus, recorded)
                if gpus == 64:
                    heap(browser, daemon.address, recorded)
        browser.close()


def size_of_page() -> None:
    """Bytes of all files."""
    size = sum(path.stat().st_size for path in DIRECTORY.iterdir())
    print(f"page with all its files: {size / 1e3:.1f} kB on disk (budget 60)")


def record(address: str) -> dict[str, Any]:
    """A full event and the deltas after it."""
    with Viewer(address) as viewer:
        events = (event for event in viewer.events() if event.name != "idle")
        full = next(events)
        deltas = [event.data for event in islice(events, RECORDED_DELTAS)]
    return {"full": full.data, "deltas": deltas}


@contextmanager
def opened(
    browser: Browser, address: str, recorded: dict[str, Any] | None = None
) -> Iterator[Page]:
    """The page behind the probe; with `recorded` it is fed by the probe alone."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.add_init_script(PROBE.read_text())
    page.add_init_script(f"bench.recorded = {json.dumps(recorded)};")
    page.goto(f"http://{address}/live")
    page.wait_for_function("() => document.getElementById('board').dataset.painted")
    yield page
    context.close()


def live(browser: Browser, address: str, seconds: float) -> None:
    """From the server's sample to the frame after the one it was drawn in; 64 GPUs, 500 ms."""
    with opened(browser, address) as page:
        gaps = page.evaluate("(seconds) => bench.frames(seconds)", seconds)
        latencies = page.evaluate("() => bench.latencies.slice(1)")  # the first one is the load
        arrivals = page.evaluate("() => bench.arrivals")
        sent = page.evaluate(
            "() => performance.getEntriesByType('resource').concat("
            "performance.getEntriesByType('navigation'))"
            ".filter(({ name }) => !name.includes('/api/'))"
            ".reduce((sum, { transferSize }) => sum + transferSize, 0)"
        )
    print(f"page with all its files: {sent / 1e3:.1f} kB sent")
    print(
        f"64 GPUs, 500 ms: sample to pixel p50 {statistics.median(latencies):.0f} ms, "
        f"p95 {percentile(latencies, 95):.0f} ms of {len(latencies)} (budget 85, aim 30), "
        f"of it until the event is there p50 {statistics.median(arrivals):.0f} ms, "
        f"p95 {percentile(arrivals, 95):.0f}"
    )
    print(
        f"64 GPUs, 500 ms: {1000 / statistics.mean(gaps):.1f} frames/s, "
        f"p99 between frames {percentile(gaps, 99):.0f} ms"
    )


def frames(browser: Browser, address: str, gpus: int, recorded: dict[str, Any]) -> None:
    """What an event costs the page: taking it, and drawing it."""
    with opened(browser, address, recorded) as page:
        page.evaluate("() => { bench.eventMs.length = bench.frameMs.length = 0; }")
        page.evaluate("() => bench.play(200, 1)")
        taking, drawing = page.evaluate("() => [bench.eventMs, bench.frameMs]")
    print(
        f"{gpus} GPUs: taking an event p50 {statistics.median(taking):.1f} ms, "
        f"p95 {percentile(taking, 95):.1f}; drawing it p50 {statistics.median(drawing):.1f} ms, "
        f"p95 {percentile(drawing, 95):.1f}"
    )


def heap(browser: Browser, address: str, recorded: dict[str, Any]) -> None:
    """JavaScript heap after garbage collection, every 5 of 30 replayed minutes of 64 GPUs."""
    with opened(browser, address, recorded) as page:
        session = page.context.new_cdp_session(page)
        sizes = []
        for _ in range(MINUTES // 5 + 1):
            page.evaluate("() => { bench.eventMs.length = bench.frameMs.length = 0; }")
            page.evaluate("() => { bench.arrivals.length = bench.latencies.length = 0; }")
            session.send("HeapProfiler.collectGarbage")
            sizes.append(session.send("Runtime.getHeapUsage")["usedSize"] / 1e6)
            page.evaluate(
                "([count, each]) => bench.play(count, each)", [5 * TICKS_A_MINUTE, TICKS_A_FRAME]
            )
    listed = " ".join(f"{size:.2f}" for size in sizes)
    print(f"64 GPUs, heap every 5 of {MINUTES} replayed minutes: {listed} MB")


def percentile(values: Sequence[float], share: int) -> float:
    """The value that `share` % of them do not exceed."""
    return statistics.quantiles(values, n=100, method="inclusive")[share - 1]


if __name__ == "__main__":
    main()
