"""The listening socket: from an address as written to one that is bound, or one readable line."""

import errno
import os
import re
import socket

from exporter.errors import ConfigError, ExporterError

_ADDRESS = re.compile(r"(?:\[(?P<ipv6>[^\]]+)\]|(?P<host>[^:\[\]]*)):(?P<port>[0-9]{1,5})")
_BACKLOG = 128
_FIXES = {
    errno.EADDRINUSE: "stop what listens there, or choose another with --web.listen-address",
    errno.EACCES: "ports below 1024 need privileges; choose another with --web.listen-address",
    errno.EADDRNOTAVAIL: "no interface of this machine has it; choose another address with "
    "--web.listen-address",
}


def listen(address: str) -> socket.socket:
    """A socket that listens on `address`: ``:10411`` (all interfaces), ``[::1]:9100``, ``host:0``.

    Raises: ConfigError: no such address can be. ExporterError: it is taken, or not ours to have.
    """
    host, port = _parse(address)
    try:
        listener = _bound(host, port)
    except (socket.gaierror, UnicodeError) as exc:
        raise ConfigError(f"--web.listen-address: {address!r}: no such host: {exc}") from exc
    except OSError as exc:
        reason = os.strerror(exc.errno).lower() if exc.errno else str(exc)
        fix = _FIXES.get(exc.errno or 0, "choose another with --web.listen-address")
        raise ExporterError(f"cannot listen on {address}: {reason}; {fix}") from exc
    # Connections inherit it; without, head and body of a response are 40 ms apart (delayed ACK).
    # asyncio would set it, but not on a socket that was made without naming the protocol.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def url_of(listener: socket.socket, scheme: str = "http") -> str:
    """Where a browser on this machine reaches the socket, with its real port."""
    host, port = listener.getsockname()[:2]
    if host in ("::", "0.0.0.0"):  # noqa: S104 (compared, not bound)
        host = "localhost"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _parse(address: str) -> tuple[str, int]:
    match = _ADDRESS.fullmatch(address)
    if match is None or int(match["port"]) > 65535:
        raise ConfigError(
            f"--web.listen-address: {address!r} is not an address; allowed: HOST:PORT, :PORT or "
            "[IPV6]:PORT with a port up to 65535, for example :10411"
        )
    return match["ipv6"] or match["host"] or "", int(match["port"])


def _bound(host: str, port: int) -> socket.socket:
    if not host and socket.has_dualstack_ipv6():
        return socket.create_server(
            ("", port), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True
        )
    family, _, _, _, where = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    return socket.create_server(where, family=family, backlog=_BACKLOG)
