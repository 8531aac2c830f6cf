"""A real Chromium, and pages in it that must stay without errors and ask no other host."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.live_page import LivePage
from tests.programs import require_program

FLAGS = (
    "--no-sandbox",  # tests may run as root
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

OpenPage = Callable[..., LivePage]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, headless, with a fresh profile."""
    path = require_program("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Browser, tmp_path: Path) -> Iterator[OpenPage]:
    """Opens the live page of an address; at the end each page is asked for errors and strangers."""
    pages: list[LivePage] = []

    def opened(address: str, query: str = "", *, is_drawn: bool = True, **context: Any) -> LivePage:
        size = {"width": 1280, "height": 800}
        given = {"viewport": size, "reduced_motion": "reduce", "accept_downloads": True, **context}
        page = LivePage(chromium.new_context(**given), address, tmp_path)
        pages.append(page)
        page.go(query, is_drawn=is_drawn)
        return page

    yield opened
    for page in pages:
        page.close()
    for page in pages:
        assert page.errors == []
        assert page.strangers == []
