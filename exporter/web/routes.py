"""Paths and what answers them. Renders the current View; knows no sources and no sockets."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
from prometheus_client.exposition import gzip_accepted
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from exporter.errors import ConfigError
from exporter.web.landing import SECURITY_POLICY, landing
from exporter.web.scrape import ScrapeCache
from exporter.web.site import Freshness, NoFreshView, Site
from exporter.web.static_files import StaticFiles


class Pages:
    """One method for each page."""

    def __init__(self, site: Site, scrapes: ScrapeCache) -> None:
        self._site = site
        self._scrapes = scrapes
        self._freshness = Freshness(site)

    async def metrics(self, request: Request) -> Response:
        """The View for Prometheus; 503 rather than an old one."""
        is_gzip = gzip_accepted(request.headers.get("accept-encoding", ""))
        body, content_type = await self._scrapes.body(
            self._freshness.view(), request.headers.get("accept", ""), is_gzip
        )
        headers = {"vary": "accept, accept-encoding"}
        if is_gzip:
            headers["content-encoding"] = "gzip"
        return Response(body, media_type=content_type, headers=headers)

    async def view(self, _request: Request) -> Response:
        """The View as JSON; 503 rather than an old one."""
        return _json(self._freshness.view())

    async def conflicts(self, _request: Request) -> Response:
        """The newest 100 conflicts as a JSON list, oldest first; 503 rather than an old one."""
        return _json(self._freshness.view().conflicts)

    async def healthy(self, _request: Request) -> Response:
        """200 unless the pipeline stands still; starting up is healthy."""
        self._freshness.check()
        return PlainTextResponse("healthy\n")

    async def ready(self, _request: Request) -> Response:
        """200 once a scrape gives figures."""
        self._freshness.view()
        return PlainTextResponse("ready\n")

    async def reload(self, _request: Request) -> Response:
        """Load the settings again; 403 where that is not enabled, 500 when they cannot be used."""
        if self._site.reload is None:
            return PlainTextResponse("not enabled; see --web.enable-lifecycle\n", status_code=403)
        try:
            await asyncio.wrap_future(self._site.reload())
        except ConfigError as exc:
            return PlainTextResponse(f"the former settings stay:\n{exc}\n", status_code=500)
        return PlainTextResponse("reloaded\n")

    async def landing(self, request: Request) -> Response:
        """The page for people."""
        host = request.headers.get("host", "localhost")
        page = landing(self._site.current_view(), self._site.telemetry_path, host)
        return HTMLResponse(page, headers={"content-security-policy": SECURITY_POLICY})


def make_app(site: Site, start: Callable[[], None], stop: Callable[[], None]) -> Starlette:
    """The ASGI application; `start` runs before the first request, `stop` after the last.

    Raises: ConfigError: the telemetry path is that of another page.
    """
    scrapes = ScrapeCache(site.render)
    pages = Pages(site, scrapes)
    files = StaticFiles()
    handlers = {
        "/": pages.landing,
        "/live": files.page,
        "/api/live": site.live.answer,
        "/api/view": pages.view,
        "/api/conflicts": pages.conflicts,
        "/-/healthy": pages.healthy,
        "/healthz": pages.healthy,
        "/-/ready": pages.ready,
        "/readyz": pages.ready,
        "/-/reload": pages.reload,
    }
    if site.telemetry_path in handlers:
        raise ConfigError(f"telemetry path {site.telemetry_path} is that of another page")
    handlers[site.telemetry_path] = pages.metrics

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        start()
        try:
            yield
        finally:
            stop()
            scrapes.close()

    async def not_found(_request: Request, _error: Exception) -> Response:
        known = ", ".join(handlers)
        return PlainTextResponse(f"no such page; there are {known}\n", status_code=404)

    app = Starlette(
        routes=[
            *(
                Route(path, handler, methods=["POST" if path == "/-/reload" else "GET"])
                for path, handler in handlers.items()
            ),
            Route("/static/{name}", files.file),
        ],
        lifespan=lifespan,
        exception_handlers={404: not_found, NoFreshView: _unavailable},
    )
    app.router.redirect_slashes = False
    return app


def _json(thing: object) -> Response:
    headers = {"cache-control": "no-store"}
    return Response(msgspec.json.encode(thing), media_type="application/json", headers=headers)


async def _unavailable(_request: Request, error: Exception) -> Response:
    return PlainTextResponse(f"{error}\n", status_code=503)
