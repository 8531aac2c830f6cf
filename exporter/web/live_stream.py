"""`/api/live`: viewers of the live feed, each sent the newest event that it has room for."""

import asyncio
import socket
from asyncio import Transport
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send

from exporter.views.live.frames import RETRY_MS
from exporter.views.live.rows import METRICS
from exporter.web.live_feed import WINDOWS, LiveFeed
from exporter.web.live_position import Position, Stream, position_of

MAX_VIEWERS = 64
IDLE_S = 2.0
DROP_AFTER_S = 10.0
KERNEL_BUFFER_BYTES = 64 << 10  # a viewer that does not read is noticed when it is full
HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store, no-transform",
    "x-accel-buffering": "no",
}


class LiveStreams:
    """Everybody who looks; belongs to one event loop. After `end` nobody does any more.

    `drop_after_s`: how long a viewer may have no room for an event.
    """

    def __init__(self, feed: LiveFeed, drop_after_s: float = DROP_AFTER_S) -> None:
        self.feed = feed
        self.drop_after_s = drop_after_s
        self.viewers = 0
        self.is_ended = False
        self.ticked = asyncio.Event()
        """Set at the next tick or at the end; then there is another one for the tick after it."""

    async def answer(self, request: Request) -> Response:
        """The stream that the request asks for, or why there is none."""
        metric = request.query_params.get("metric", METRICS[0])
        window = request.query_params.get("window", WINDOWS[0])
        for name, value, allowed in (("metric", metric, METRICS), ("window", window, WINDOWS)):
            if value not in allowed:
                text = f"{name}: {value!r} is none; allowed: {', '.join(allowed)}\n"
                return PlainTextResponse(text, status_code=400)
        if request.method == "HEAD":
            return Response(headers=HEADERS)
        if self.viewers >= MAX_VIEWERS or self.is_ended:
            text = f"{self.viewers} viewers look at the live stream already; close one of them\n"
            return PlainTextResponse(text, status_code=503, headers={"retry-after": "5"})
        stream = Stream(METRICS.index(metric), WINDOWS.index(window))
        after = request.headers.get("last-event-id") or request.query_params.get("after", "")
        return _Viewer(self, stream, position_of(after))

    def end(self) -> None:
        """Let every viewer go: the server ends."""
        self.is_ended = True
        self._wake()

    def enter(self) -> None:
        """One viewer more: from the first on ticks wake this event loop."""
        self.viewers += 1
        if self.viewers == 1:
            loop = asyncio.get_running_loop()

            def on_tick() -> None:
                with suppress(RuntimeError):  # the loop has ended: nobody to tell
                    loop.call_soon_threadsafe(self._wake)

            self.feed.on_tick = on_tick

    def leave(self) -> None:
        """One viewer less."""
        self.viewers -= 1
        if not self.viewers:
            self.feed.on_tick = None
            self.feed.forget_events()

    def _wake(self) -> None:
        ticked, self.ticked = self.ticked, asyncio.Event()
        ticked.set()


class _Viewer(Response):
    """One stream. It holds a position and nothing else: who is slow gets the newest, later."""

    def __init__(self, streams: LiveStreams, stream: Stream, position: Position | None) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers(HEADERS)
        self._streams = streams
        self._stream = stream
        self._position = position

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        transport: Transport = scope["state"]["transport"]
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BUFFER_BYTES)
        head = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        self._streams.enter()
        try:
            await send(head)
            await send(_part(b"retry: %d\n\n" % RETRY_MS))
            await self._show(transport, send)
            if not transport.is_closing() and not transport.get_write_buffer_size():
                await send(_part(b"", is_last=True))
                return
            transport.abort()
            while (await receive())["type"] != "http.disconnect":
                pass
        finally:
            self._streams.leave()

    async def _show(self, transport: Transport, send: Send) -> None:
        """Send events until the viewer or the server ends, or the viewer reads no more."""
        now_s = asyncio.get_running_loop().time
        sent_s, had_room_s = -IDLE_S, now_s()
        while not self._streams.is_ended and not transport.is_closing():
            ticked = self._streams.ticked
            if not transport.get_write_buffer_size():
                had_room_s = now_s()
                event = self._next(is_idle=now_s() - sent_s >= IDLE_S)
                if event is not None:
                    await send(_part(event))
                    sent_s = now_s()
            elif now_s() - had_room_s > self._streams.drop_after_s:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(IDLE_S):
                    await ticked.wait()

    def _next(self, *, is_idle: bool) -> bytes | None:
        event = self._streams.feed.event(self._stream, self._position)
        if event is None:
            return self._streams.feed.idle() if is_idle else None
        data, self._position = event
        return data


def _part(body: bytes, *, is_last: bool = False) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": not is_last}
