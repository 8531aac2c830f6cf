"""The live page's own files, read from the package; nothing else can be asked for."""

import gzip
from hashlib import sha256
from pathlib import Path

from prometheus_client.exposition import gzip_accepted
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

DIRECTORY = Path(__file__).parent / "static"
PAGE = "live.html"
MEDIA_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)


class StaticFiles:
    """Answers from the files that are there when it is made."""

    def __init__(self) -> None:
        self._names = {path.name for path in DIRECTORY.iterdir() if path.suffix in MEDIA_TYPES}

    async def page(self, request: Request) -> Response:
        """The live page."""
        return _answer(request, PAGE)

    async def file(self, request: Request) -> Response:
        """A file that the page asks for."""
        name = request.path_params["name"]
        if name not in self._names:
            raise HTTPException(404)
        return _answer(request, name)


def _answer(request: Request, name: str) -> Response:
    path = DIRECTORY / name
    body = path.read_bytes()
    is_gzip = gzip_accepted(request.headers.get("accept-encoding", ""))
    tag = f'"{sha256(body).hexdigest()[:16]}{"-gzip" if is_gzip else ""}"'
    headers = {
        "cache-control": "no-cache",  # asks whether it changed: page and files always match
        "content-security-policy": SECURITY_POLICY,
        "etag": tag,
        "vary": "accept-encoding",
    }
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    if is_gzip:
        headers["content-encoding"] = "gzip"
        body = gzip.compress(body, mtime=0)
    return Response(body, media_type=MEDIA_TYPES[path.suffix], headers=headers)
