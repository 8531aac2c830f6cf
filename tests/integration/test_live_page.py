"""The live page's files as a browser gets them."""

import http.client
from collections.abc import Iterator

import pytest

from exporter.web.static_files import DIRECTORY, MEDIA_TYPES
from tests.daemon import Daemon, running


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with running("serve", "--no-nvml") as started:
        yield started


def ask(daemon: Daemon, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(daemon.address, timeout=30)
    connection.request("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})
    response = connection.getresponse()
    found = {name.lower(): value for name, value in response.getheaders()}
    body = response.read()
    connection.close()
    return response.status, found, body


@pytest.mark.parametrize(
    "path", ["/live", *sorted(f"/static/{path.name}" for path in DIRECTORY.iterdir())]
)
def test_the_page_and_its_files_may_only_load_from_here(daemon: Daemon, path: str) -> None:
    status, headers, body = ask(daemon, path)
    assert (status, body != b"") == (200, True)
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert "//" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    suffix = ".html" if path == "/live" else path[path.rindex(".") :]
    assert headers["content-type"].split(";")[0] == MEDIA_TYPES[suffix]


def test_a_file_that_did_not_change_is_not_sent_again(daemon: Daemon) -> None:
    _, headers, _ = ask(daemon, "/live")
    assert headers["cache-control"] == "no-cache"
    status, again, body = ask(daemon, "/live", if_none_match=headers["etag"])
    assert (status, again["etag"], body) == (304, headers["etag"], b"")
    assert ask(daemon, "/live", if_none_match='"other"')[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/static/",
        "/static/nothing.js",
        "/static/../server.py",
        "/static/%2e%2e/server.py",
        "/static/..%2fserver.py",
        "/static/%2fetc%2fpasswd",
        "/static/live.html%00",
    ],
)
def test_nothing_else_is_given_out(daemon: Daemon, path: str) -> None:
    status, _, body = ask(daemon, path)
    assert status == 404
    assert body.startswith(b"no such page; there are /, /live, ")


def test_the_landing_page_leads_to_it(daemon: Daemon) -> None:
    assert b'<a class="live" href="/live">' in ask(daemon, "/")[2]
