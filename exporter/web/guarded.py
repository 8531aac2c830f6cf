"""Asks who comes for a password, and adds headers to every answer; knows no pages."""

import asyncio
import base64
import binascii
import hashlib
import os

import bcrypt
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from exporter.errors import ConfigError
from exporter.web.web_config import WebConfig, load_web_config

_NOBODY = "$2b$10$" + "." * 53  # costs as long as a wrong password of somebody


class Guarded:
    """An application behind passwords.

    bcrypt is slow on purpose: it runs beside the event loop, one check at a time. Who was right is
    remembered under a keyed digest, one for each user, and waits for nobody who comes after.

    Args: file: the web config, see `load_web_config`, whose errors this raises.
    """

    def __init__(self, app: ASGIApp, file: str) -> None:
        self._app = app
        self._file = file
        self._config = load_web_config(file)
        self.tls = self._config.tls
        self._key = os.urandom(32)
        self._known: set[bytes] = set()
        self._checking = asyncio.Lock()

    def read_again(self) -> WebConfig:
        """The file as it is now; changes nothing yet.

        Raises: ConfigError: it has a mistake, or TLS would come or go while it runs.
        """
        config = load_web_config(self._file)
        if (config.tls is None) != (self.tls is None):
            raise ConfigError("--web.config.file: tls_server_config cannot come or go; restart")
        return config

    def take(self, config: WebConfig) -> None:
        """Go on with other passwords, headers and certificate; any thread may call it."""
        if self.tls is not None:
            self.tls.load_cert_chain(*config.certificate)
        self._config = config
        self._known.clear()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._config.headers)
            await send(message)

        answer = self._app if await self._may_enter(scope) else _REFUSAL
        await answer(scope, receive, send_with_headers)

    async def _may_enter(self, scope: Scope) -> bool:
        users = self._config.users
        if not users:
            return True
        given = _credentials(Headers(scope=scope).get("authorization", ""))
        if given is None:
            return False
        name, password = given
        hashed = users.get(name, _NOBODY)
        text = b"\0".join((hashed.encode(), name.encode(), password))
        digest = hashlib.blake2b(text, key=self._key).digest()
        if digest in self._known:
            return True
        async with self._checking:
            is_right = await asyncio.to_thread(_is_right, password, hashed)
        if not is_right or name not in users:
            return False
        self._known.add(digest)
        return True


_REFUSAL = PlainTextResponse(
    "a name and its password, please\n", status_code=401, headers={"www-authenticate": "Basic"}
)


def _credentials(header: str) -> tuple[str, bytes] | None:
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(encoded, validate=True).partition(b":")
        return (name.decode(), password) if colon else None
    except (binascii.Error, UnicodeDecodeError):
        return None


def _is_right(password: bytes, hashed: str) -> bool:
    try:
        return bcrypt.checkpw(password, hashed.encode())
    except ValueError:  # longer than 72 bytes, or with a NUL: nobody has such a one
        return False
