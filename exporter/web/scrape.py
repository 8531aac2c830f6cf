"""Bodies for scrapes: rendered once for each View, format and encoding; large ones in a thread."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from exporter.records.view import View
from exporter.views.metrics.text_format import TextFormat, text_format

GZIP_LEVEL = 1  # a tenth of 9's time for a body a fifth larger
INLINE_BYTES = (
    256 * 1024
)  # takes 4 ms; below that waking a thread costs a scrape a tenth of its time
MAX_BODIES = 16  # a client can ask for any OpenMetrics version: each is a format of its own

Render = Callable[[View, TextFormat], bytes]


class ScrapeCache:
    """The bodies of the View that was scraped last; belongs to one event loop."""

    def __init__(self, render: Render) -> None:
        self._render = render
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="scrape")
        self._view: View | None = None
        self._bodies: dict[tuple[str, str], asyncio.Future[bytes]] = {}
        self._is_small = False  # the last text, which the next will be much like

    async def body(self, view: View, accept: str, is_gzip: bool) -> tuple[bytes, str]:
        """The View in the format that the Accept header asks for, and its content type."""
        if view is not self._view:
            self._view, self._bodies = view, {}
        bodies = self._bodies
        wanted = text_format(accept)
        content_type = wanted.content_type
        text = await self._once(
            bodies, (content_type, "identity"), lambda: self._render(view, wanted)
        )
        self._is_small = len(text) <= INLINE_BYTES
        if not is_gzip:
            return text, content_type
        zipped = await self._once(
            bodies, (content_type, "gzip"), lambda: gzip.compress(text, GZIP_LEVEL, mtime=0)
        )
        return zipped, content_type

    def _once(
        self,
        bodies: dict[tuple[str, str], asyncio.Future[bytes]],
        key: tuple[str, str],
        make: Callable[[], bytes],
    ) -> Awaitable[bytes]:
        if key not in bodies:
            if len(bodies) >= MAX_BODIES:
                bodies.clear()
            bodies[key] = self._made(make)
        return asyncio.shield(bodies[key])  # one client that leaves must not cancel the others'

    def _made(self, make: Callable[[], bytes]) -> asyncio.Future[bytes]:
        loop = asyncio.get_running_loop()
        if not self._is_small:
            return loop.run_in_executor(self._executor, make)
        made: asyncio.Future[bytes] = loop.create_future()
        made.set_result(make())
        return made

    def close(self) -> None:
        """Start no rendering any more; one that runs is not waited for."""
        self._executor.shutdown(wait=False, cancel_futures=True)
