"""A server on a free port that answers as vLLM's API server does, or as it should not."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from pathlib import Path

SAMPLES = Path(__file__).parent / "samples"


@dataclass
class EngineServer:
    """What it answers next, and what it was asked; `write_raw` writes instead of an answer."""

    port: int
    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    write_raw: Callable[[BufferedIOBase], None] | None = None
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    ending: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def serving(body: bytes = b"") -> Iterator[EngineServer]:
    """Until the block ends; what still hangs then is let go by `ending`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.requests.append((self.path, dict(self.headers)))
            if server.write_raw:
                server.write_raw(self.wfile)
                return
            self.send_response(server.status)
            for name, value in server.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(server.body)

        def log_message(self, format: str, *_args: object) -> None:  # noqa: A002
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http_server:
        server = EngineServer(http_server.server_port, body)
        thread = threading.Thread(target=http_server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.ending.set()
            http_server.shutdown()
            thread.join()
