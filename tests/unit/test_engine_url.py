"""What --engine.url may say, whose engines it names, and what of it people may see."""

import socket

import pytest

from exporter.errors import ConfigError
from exporter.sources.engine_url import EngineUrl, read_engine_urls

HERE = socket.gethostname()


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://vllm", EngineUrl("vllm:80", False, "vllm", 80, "/metrics")),
        ("https://vllm/", EngineUrl("vllm:443", True, "vllm", 443, "/metrics")),
        ("http://vllm:8000/v/m", EngineUrl("vllm:8000", False, "vllm", 8000, "/v/m")),
        ("http://vllm:8000?a=1", EngineUrl("vllm:8000", False, "vllm", 8000, "/metrics?a=1")),
        ("blue=http://vllm:8000", EngineUrl("blue", False, "vllm", 8000, "/metrics")),
        ("blue=http://127.0.0.1:1", EngineUrl("blue", False, "127.0.0.1", 1, "/metrics")),
        ("http://127.0.0.1:8000", EngineUrl(HERE, False, "127.0.0.1", 8000, "/metrics")),
        ("http://127.8.8.8:8000", EngineUrl(HERE, False, "127.8.8.8", 8000, "/metrics")),
        ("http://localhost:8000", EngineUrl(HERE, False, "localhost", 8000, "/metrics")),
        ("http://[::1]:8000", EngineUrl(HERE, False, "::1", 8000, "/metrics")),
        ("http://[fd00::2]:8000", EngineUrl("[fd00::2]:8000", False, "fd00::2", 8000, "/metrics")),
        ("http://10.0.0.7:8000", EngineUrl("10.0.0.7:8000", False, "10.0.0.7", 8000, "/metrics")),
        (
            "http://me:p%40ss@vllm:8000",  # base64 of me:p@ss
            EngineUrl("vllm:8000", False, "vllm", 8000, "/metrics", "Basic bWU6cEBzcw=="),
        ),
    ],
)
def test_a_url_alone(text: str, url: EngineUrl) -> None:
    assert read_engine_urls([text]) == (url,)


def test_of_several_on_this_machine_each_is_its_address() -> None:
    urls = read_engine_urls(["http://127.0.0.1:8000", "http://127.0.0.1:8001"])
    assert [url.replica for url in urls] == ["127.0.0.1:8000", "127.0.0.1:8001"]


def test_two_urls_of_one_replica_are_a_mistake() -> None:
    with pytest.raises(ConfigError) as caught:
        read_engine_urls(["a=http://x:1", "a=http://u:pw@y:2/m?key=3", "b=http://x:1"])
    assert str(caught.value) == "http://y:2/m: 'a' is there already; use NAME=URL"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "vllm:8000",
        "=http://vllm",
        "blue=",
        "file:///etc/passwd",
        "http://",
        "http://:8000",
        "http://vllm:0",
        "http://vllm:65536",
        "http://vllm:port",
        "http://[::1",
        "http://vl lm",
        "http://vllm/a\r\nHost: x",
        "http://vllm/é",
        8000,
        None,
        {"url": "http://vllm"},
    ],
)
def test_what_is_no_url_of_an_engine_is_one_mistake(text: object) -> None:
    with pytest.raises(ConfigError) as caught:
        read_engine_urls(["http://fine", text])
    assert str(caught.value).count("\n") == 0
    assert "is not allowed; use http:// or https://" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "ftp://me:secret@vllm",
        "me:secret@vllm:8000",
        "http://me:sec@secret@vllm:port",
        "blue=secret@vllm",
        "http://me:s/secret@vllm:x",
        "http://me:secret\n@vllm",
        "ftp://vllm/?token=secret",
    ],
)
def test_a_mistake_shows_no_credentials(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_engine_urls([text])
    assert "secret" not in str(caught.value)


def test_people_see_neither_user_nor_password_nor_query() -> None:
    (url,) = read_engine_urls(["https://me:secret@vllm/m?token=secret"])
    assert url.shown == "https://vllm:443/m"
