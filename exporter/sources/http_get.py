"""One HTTP GET with one deadline for all of it and a cap on its size; follows no redirect."""

import http.client
import io
import socket
import ssl
from typing import cast

from exporter.clock import Clock
from exporter.errors import SourceUnavailable
from exporter.sources.engine_url import EngineUrl

MAX_BODY_BYTES = 16 * 2**20
_SHORTEST_WAIT_S = 0.001
_HEADERS = {
    "Accept": "text/plain; version=0.0.4",
    "Accept-Encoding": "identity",
    "Connection": "close",
    "User-Agent": "vllm-memory-exporter",
}


def get(url: EngineUrl, timeout_s: float, clock: Clock) -> bytes:
    """The body that the server answers with status 200.

    No proxy is used, and nothing is asked twice.

    Raises: SourceUnavailable: reason ``unreachable``, ``timed_out``, ``tls_failed``,
    ``redirected``, ``http_status``, ``bad_response`` or ``body_too_large``. What passes without
    notice when a server has started does not back off.
    """
    deadline_s = clock.monotonic() + timeout_s
    connect = http.client.HTTPSConnection if url.is_https else http.client.HTTPConnection
    connection = connect(url.host, url.port, timeout=timeout_s)
    headers = _HEADERS | ({"Authorization": url.authorization} if url.authorization else {})
    try:
        connection.request("GET", url.target, headers=headers)
        timed = _TimedSocket(connection.sock, clock, deadline_s)
        response = http.client.HTTPResponse(cast(socket.socket, timed), method="GET")
        with response:
            response.begin()
            _require_ok(url, response)
            body = response.read(MAX_BODY_BYTES + 1)
            if response.length and len(body) <= MAX_BODY_BYTES:
                raise http.client.IncompleteRead(b"", response.length)
    except TimeoutError as exc:
        raise SourceUnavailable(
            "timed_out",
            f"{url.shown} did not answer within {timeout_s:g} s",
            "the server is overloaded or hangs; it is asked again",
            backs_off=False,
        ) from exc
    except ssl.SSLError as exc:
        raise SourceUnavailable(
            "tls_failed",
            f"{url.shown}: {exc.reason or exc}",
            "use http:// if the server speaks no TLS, or let this machine trust its certificate",
        ) from exc
    except OSError as exc:
        raise SourceUnavailable(
            "unreachable",
            f"{url.shown}: {exc.strerror or exc}",
            "start vLLM's API server or correct --engine.url",
            backs_off=False,
        ) from exc
    except (http.client.HTTPException, ValueError) as exc:
        raise SourceUnavailable(
            "bad_response",
            f"{url.shown}: no HTTP answer ({type(exc).__name__})",
            "let --engine.url name vLLM's API server",
        ) from exc
    finally:
        connection.close()
    if len(body) > MAX_BODY_BYTES:
        raise SourceUnavailable(
            "body_too_large",
            f"{url.shown} answers with more than {MAX_BODY_BYTES} bytes",
            "let --engine.url name vLLM's own /metrics",
        )
    return body


def _require_ok(url: EngineUrl, response: http.client.HTTPResponse) -> None:
    status = response.status
    if 300 <= status < 400:
        raise SourceUnavailable(
            "redirected",
            f"{url.shown} redirects (status {status}), which is not followed",
            "give the address that it leads to",
        )
    if status != http.client.OK:
        fixes = {
            401: "put USER:PASSWORD@ before the host, or use the address behind the proxy",
            403: "put USER:PASSWORD@ before the host, or use the address behind the proxy",
            404: "let --engine.url name vLLM's API server; its metrics are at /metrics",
        }
        fix = fixes.get(status, "see the log of vLLM's API server")
        raise SourceUnavailable(
            "http_status",
            f"{url.shown} answers with status {status}",
            fix,
            backs_off=status < http.client.INTERNAL_SERVER_ERROR,
        )


class _TimedSocket:
    """What HTTPResponse needs of a socket: a file, each read of which ends at the deadline."""

    def __init__(self, sock: socket.socket, clock: Clock, deadline_s: float) -> None:
        self._reader = _TimedReader(sock, clock, deadline_s)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self._reader)


class _TimedReader(io.RawIOBase):
    def __init__(self, sock: socket.socket, clock: Clock, deadline_s: float) -> None:
        self._sock = sock
        self._clock = clock
        self._deadline_s = deadline_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        left_s = self._deadline_s - self._clock.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._sock.settimeout(max(left_s, _SHORTEST_WAIT_S))
        return self._sock.recv_into(buffer)
