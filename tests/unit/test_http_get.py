"""One GET: every way in which it can fail is a reason of its own, within its time."""

import socket
from collections.abc import Iterator
from io import BufferedIOBase

import msgspec
import pytest

from exporter.clock import SystemClock
from exporter.errors import SourceUnavailable
from exporter.sources.engine_url import EngineUrl, read_engine_urls
from exporter.sources.http_get import MAX_BODY_BYTES, get
from tests.engine_server import EngineServer, serving


@pytest.fixture
def server() -> Iterator[EngineServer]:
    with serving(b"vllm:num_requests_running 1\n") as server:
        yield server


def url_of(server: EngineServer, credentials: str = "") -> EngineUrl:
    (url,) = read_engine_urls([f"http://{credentials}127.0.0.1:{server.port}"])
    return url


def refusal(url: EngineUrl, timeout_s: float = 10.0) -> SourceUnavailable:
    with pytest.raises(SourceUnavailable) as caught:
        get(url, timeout_s, SystemClock())
    return caught.value


def test_a_body_comes_whole(server: EngineServer) -> None:
    server.body = b"x" * 3_000_000
    assert get(url_of(server), 10.0, SystemClock()) == server.body


def test_it_asks_for_the_text_format_uncompressed_and_lets_the_connection_go(
    server: EngineServer,
) -> None:
    get(url_of(server), 10.0, SystemClock())
    ((path, headers),) = server.requests
    assert path == "/metrics"
    assert headers["Accept"] == "text/plain; version=0.0.4"
    assert headers["Accept-Encoding"] == "identity"
    assert headers["Connection"] == "close"
    assert "Authorization" not in headers


def test_credentials_are_sent_and_never_shown(server: EngineServer) -> None:
    url = url_of(server, "me:secret@")
    get(url, 10.0, SystemClock())
    assert server.requests[0][1]["Authorization"] == "Basic bWU6c2VjcmV0"
    server.status = 401
    assert str(refusal(url)) == (
        f"http://127.0.0.1:{server.port}/metrics answers with status 401;"
        " put USER:PASSWORD@ before the host, or use the address behind the proxy"
    )


@pytest.mark.parametrize(
    ("status", "backs_off"), [(204, True), (400, True), (404, True), (500, False), (503, False)]
)
def test_another_status_is_a_failure(server: EngineServer, status: int, backs_off: bool) -> None:
    server.status = status
    failure = refusal(url_of(server))
    assert (failure.reason, failure.backs_off) == ("http_status", backs_off)
    assert f"answers with status {status}" in failure.detail


def test_a_redirect_is_not_followed(server: EngineServer) -> None:
    server.status, server.headers = 307, {"Location": "/elsewhere"}
    failure = refusal(url_of(server))
    assert failure.reason == "redirected"
    assert [path for path, _ in server.requests] == ["/metrics"]


def test_no_proxy_is_asked(server: EngineServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert get(url_of(server), 10.0, SystemClock()) == server.body


def test_a_body_beyond_the_cap_is_refused(server: EngineServer) -> None:
    server.body = b"x" * (MAX_BODY_BYTES + 1)
    assert refusal(url_of(server), 30.0).reason == "body_too_large"


def test_b18_who_accepts_and_says_nothing_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        (url,) = read_engine_urls([f"http://127.0.0.1:{silent.getsockname()[1]}"])
        failure = refusal(url, 0.2)
    assert (failure.reason, failure.backs_off) == ("timed_out", False)


@pytest.mark.parametrize(
    "start",
    [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\n\r\n"],
    ids=["status line", "header", "body"],
)
def test_b18_who_keeps_dripping_is_given_up_in_time(server: EngineServer, start: bytes) -> None:
    def drip(stream: BufferedIOBase) -> None:
        stream.write(start)
        try:
            while not server.ending.wait(0.02):  # the pace of the drops
                stream.write(b"H")
        except OSError:
            return

    server.write_raw = drip
    assert refusal(url_of(server), 0.3).reason == "timed_out"


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 two hundred\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nvllm",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500 + b"\r\n",
    ],
    ids=["no HTTP", "no status", "cut short", "bad chunk", "too many headers"],
)
def test_what_is_no_http_answer_is_a_failure(server: EngineServer, answer: bytes) -> None:
    def write(stream: BufferedIOBase) -> None:
        stream.write(answer)

    server.write_raw = write
    assert refusal(url_of(server)).reason == "bad_response"


def test_who_hangs_up_at_once_is_unreachable(server: EngineServer) -> None:
    server.write_raw = lambda _stream: None
    assert refusal(url_of(server)).reason == "unreachable"


def test_where_nobody_listens_it_says_so() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        (url,) = read_engine_urls([f"http://127.0.0.1:{closed.getsockname()[1]}"])
        failure = refusal(url)
    assert (failure.reason, failure.backs_off) == ("unreachable", False)
    assert str(failure) == (
        f"{url.shown}: Connection refused; start vLLM's API server or correct --engine.url"
    )


def test_a_host_without_an_address_is_unreachable() -> None:
    (url,) = read_engine_urls(["http://vllm.invalid:8000"])
    assert refusal(url).reason == "unreachable"


def test_a_host_name_that_cannot_be_one_is_a_failure() -> None:
    (url,) = read_engine_urls(["http://a..b:8000"])
    assert refusal(url).reason in ("bad_response", "unreachable")


def test_https_where_http_is_spoken_names_tls(server: EngineServer) -> None:
    url = msgspec.structs.replace(url_of(server), is_https=True)
    assert refusal(url).reason == "tls_failed"
