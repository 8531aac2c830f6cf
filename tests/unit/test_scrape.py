"""Where a scrape is rendered: small texts at once, large ones beside the event loop."""

import asyncio
import threading

import pytest

from exporter.records.view import View
from exporter.views.metrics.text_format import TextFormat
from exporter.web.scrape import INLINE_BYTES, ScrapeCache
from tests.views import bare_view


@pytest.mark.parametrize(
    ("size", "second"),
    [(INLINE_BYTES, "MainThread"), (INLINE_BYTES + 1, "scrape_0")],
    ids=["small", "large"],
)
def test_only_a_text_known_to_be_small_is_rendered_on_the_event_loop(
    size: int, second: str
) -> None:
    threads: list[str] = []

    def render(_view: View, _format: TextFormat) -> bytes:
        threads.append(threading.current_thread().name)
        return b"x" * size

    async def two_scrapes() -> None:
        scrapes = ScrapeCache(render)
        for view in (bare_view(), bare_view()):
            text, _type = await scrapes.body(view, "", is_gzip=False)
            assert text == b"x" * size
        scrapes.close()

    asyncio.run(two_scrapes())
    assert threads == ["scrape_0", second]
