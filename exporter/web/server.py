"""The HTTP server around the application: how it runs, and how it ends. Knows no routes."""

import asyncio
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType
from typing import Any

from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import HANDLED_SIGNALS, Server

KEEP_ALIVE_S = 75  # longer than common scrape intervals, so that connections are reused
GRACE_S = 1  # for responses under way when the server is told to end


class WebServer:
    """Serves an application on a socket that listens already."""

    def __init__(
        self,
        app: ASGIApp,
        listener: socket.socket,
        on_end: Callable[[], None] = lambda: None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`on_end` is called when it begins to end: who streams must let go then."""
        self._listener = listener
        self._server = _QuietServer(
            _Config(
                tls,
                app,
                loop="asyncio",
                http=_Connection,
                ws="none",
                lifespan="on",
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                headers=[("X-Content-Type-Options", "nosniff")],
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=GRACE_S,
            ),
            on_end,
        )

    def run(self) -> None:
        """Serve until `request_stop`; then end within GRACE_S and a little."""
        self._server.run(sockets=[self._listener])

    def request_stop(self) -> None:
        """Make `run` return soon; any thread and signal handler may call it, also before `run`."""
        self._server.should_exit = True

    @contextmanager
    def ended_by_signals(self) -> Iterator[None]:
        """Within the block SIGTERM and SIGINT are a `request_stop`; main thread only."""

        def on_signal(_number: int, _frame: FrameType | None) -> None:
            self.request_stop()

        former = {number: signal.signal(number, on_signal) for number in HANDLED_SIGNALS}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)


class _Config(Config):
    """uvicorn's, with a TLS context that is made already."""

    def __init__(self, tls: ssl.SSLContext | None, app: ASGIApp, **options: Any) -> None:  # noqa: ANN401 (uvicorn's own)
        super().__init__(app, **options)
        self._tls = tls

    def load(self) -> None:
        super().load()
        self.ssl = self._tls


class _Connection(H11Protocol):
    """uvicorn's, but requests find its transport in their state: a stream must see who is slow."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, "transport": transport}


class _QuietServer(Server):
    """uvicorn's server without its signal handlers: it raises the signal again that ended it."""

    def __init__(self, config: Config, on_end: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_end = on_end

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_end()
        await super().shutdown(sockets)

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()
