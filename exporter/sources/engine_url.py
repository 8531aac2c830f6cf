"""Where an engine's own /metrics is, and whose it is: what ``--engine.url`` says. Asks nobody."""

import base64
import re
import socket
from collections.abc import Sequence
from ipaddress import ip_address
from urllib.parse import SplitResult, unquote, urlsplit

from msgspec import Struct

from exporter.errors import ConfigError

_PORTS = {"http": 80, "https": 443}
_NAMED = re.compile(r"(?P<name>[^=:/?#@]{1,200})=(?P<url>.*)")
_ALLOWED = "http:// or https://, a host, and perhaps :PORT and /PATH; NAME= may precede"


class EngineUrl(Struct, frozen=True):
    """One URL: replica name, address, and what to ask for.

    `target` is path and query (``/metrics`` where the URL has no path). `authorization` is the
    header made from a user and password in the URL; None without. Only `shown` is for people.
    """

    replica: str
    is_https: bool
    host: str
    port: int
    target: str
    authorization: str | None = None

    @property
    def shown(self) -> str:
        """The URL for logs, without user, password and query."""
        scheme = "https" if self.is_https else "http"
        return f"{scheme}://{_netloc(self.host, self.port)}{self.target.partition('?')[0]}"


def read_engine_urls(texts: Sequence[object]) -> tuple[EngineUrl, ...]:
    """The ``URL`` or ``NAME=URL`` of each engine server.

    The replica of a server is its NAME. Without one it is this machine's host name, which is also
    the plugin's own default, when the URL is the only one and leads to this machine (a loopback
    address); else ``HOST:PORT``.

    Raises: ConfigError: one line for each that is no such URL or whose replica another one has,
    without user, password and query.
    """
    urls: list[EngineUrl] = []
    mistakes: list[str] = []
    for text in texts:
        try:
            url = _read(text, is_only=len(texts) == 1)
        except ValueError:
            mistakes.append(f"{_redacted(text)!r} is not allowed; use {_ALLOWED}")
            continue
        if any(url.replica == other.replica for other in urls):
            mistakes.append(f"{url.shown}: {url.replica!r} is there already; use NAME=URL")
        urls.append(url)
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    return tuple(urls)


def _read(text: object, *, is_only: bool) -> EngineUrl:
    """Raises: ValueError: it is no URL of an engine."""
    if not isinstance(text, str) or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError(text)
    named = _NAMED.fullmatch(text)
    url = urlsplit(named["url"] if named else text)
    host, port = url.hostname, url.port
    if url.scheme not in _PORTS or not host or port == 0:
        raise ValueError(text)
    port = port or _PORTS[url.scheme]
    if named:
        replica = named["name"]
    elif is_only and _is_loopback(host):
        replica = socket.gethostname() or "unknown"
    else:
        replica = _netloc(host, port)
    path = url.path if url.path not in ("", "/") else "/metrics"
    target = f"{path}?{url.query}" if url.query else path
    return EngineUrl(replica, url.scheme == "https", host, port, target, _authorization(url))


def _redacted(text: object) -> object:
    """A setting that is wrong, without what may be a user, a password or a token."""
    if not isinstance(text, str):
        return text
    return re.sub(r"^(https?://)?.*@", r"\1***@", text, flags=re.DOTALL).partition("?")[0]


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _netloc(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _authorization(url: SplitResult) -> str | None:
    if url.username is None:
        return None
    credentials = f"{unquote(url.username)}:{unquote(url.password or '')}"
    return f"Basic {base64.b64encode(credentials.encode()).decode()}"
