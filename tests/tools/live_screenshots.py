"""Pictures of the live page for the docs, out of recordings that stand still at a bad moment.

Usage: python -m tests.tools.live_screenshots [DIRECTORY]; needs Debian's chromium.
"""

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from exporter.recordings import DEMO, bundled_path
from tests.browser.conftest import FLAGS
from tests.browser.fleet import fleet
from tests.browser.live_page import LivePage
from tests.daemon import running

DESKTOP = {"width": 1280, "height": 720}
TALL = {"width": 1280, "height": 1000}
PHONE = {"width": 390, "height": 844}
DEMO_AT_S = "88"  # the pool has filled up, requests were preempted, a co-tenant is there


def main() -> None:
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=[*FLAGS])
        demo = ("serve", "--replay", str(bundled_path(DEMO)), "--replay.freeze-at", DEMO_AT_S)
        shoot(browser, demo, directory / "live-demo.png", DESKTOP, "light")
        shoot(browser, demo, directory / "live-demo-dark.png", DESKTOP, "dark")
        shoot(browser, demo, directory / "live-phone.png", PHONE, "light")
        path = fleet(Path(scratch) / "fleet.jsonl", 64, 8)
        replay = ("serve", "--replay", str(path), "--replay.freeze-at", "60")
        shoot(browser, replay, directory / "live-64-gpus.png", TALL, "dark")
        browser.close()


def shoot(
    browser: Browser, command: tuple[str, ...], path: Path, size: dict[str, int], scheme: str
) -> None:
    """One picture of the page over a daemon that this command starts."""
    with running(*command) as daemon, tempfile.TemporaryDirectory() as scratch:
        scale = 2 if size is PHONE else 1
        context = browser.new_context(
            viewport=size,  # type: ignore[arg-type]  # a dict with its two keys
            color_scheme=scheme,  # type: ignore[arg-type]  # light or dark
            device_scale_factor=scale,
        )
        page = LivePage(context, daemon.address, Path(scratch))
        page.go()
        page.wait_for_frames()
        page.page.screenshot(path=path)
        page.close()


if __name__ == "__main__":
    main()
