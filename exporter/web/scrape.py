"""Bodies for scrapes: rendered off the event loop, once for each View, format and encoding."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as TEXT
from prometheus_client.exposition import choose_encoder, generate_latest
from prometheus_client.registry import Collector

from exporter.records.view import View

GZIP_LEVEL = 1  # a tenth of 9's time for a body a fifth larger
MAX_BODIES = 16  # a client can ask for any OpenMetrics version: each is a format of its own

Encoder = Callable[[Collector], bytes]


class ScrapeCache:
    """The bodies of the View that was scraped last; belongs to one event loop."""

    def __init__(self, registry_of: Callable[[View], Collector]) -> None:
        self._registry_of = registry_of
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="scrape")
        self._view: View | None = None
        self._bodies: dict[tuple[str, str], asyncio.Future[bytes]] = {}

    async def body(self, view: View, accept: str, is_gzip: bool) -> tuple[bytes, str]:
        """The View in the format that the Accept header asks for, and its content type."""
        if view is not self._view:
            self._view, self._bodies = view, {}
        bodies = self._bodies
        encoder, content_type = _format(accept)
        text = await self._once(
            bodies, (content_type, "identity"), lambda: encoder(self._registry_of(view))
        )
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
            bodies[key] = asyncio.get_running_loop().run_in_executor(self._executor, make)
        return asyncio.shield(bodies[key])  # one client that leaves must not cancel the others'

    def close(self) -> None:
        """Start no rendering any more; one that runs is not waited for."""
        self._executor.shutdown(wait=False, cancel_futures=True)


def _format(accept: str) -> tuple[Encoder, str]:
    try:
        return choose_encoder(accept)
    except TypeError:  # prometheus_client compares a version that is no number with one that is
        return generate_latest, TEXT
