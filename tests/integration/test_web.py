"""The real server on a real socket, asked by a real client."""

import gzip
import http.client
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace
from prometheus_client.openmetrics.parser import text_string_to_metric_families as from_openmetrics

from exporter import __version__
from exporter.clock import ManualClock
from exporter.errors import ConfigError
from exporter.records.view import View
from exporter.views.metrics.exposition import Exposition
from exporter.views.metrics.text_format import TextFormat
from exporter.web.listener import listen
from exporter.web.routes import make_app
from exporter.web.server import WebServer
from exporter.web.site import Site
from tests.views import co_tenant, make_view

OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass
class Running:
    """A server under test, with the View and the clock that a test moves by hand."""

    view: View | None = None
    clock: ManualClock = field(default_factory=lambda: ManualClock(0, monotonic_s=100.0))
    rendered: list[View] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    exposition: Exposition = field(default_factory=Exposition)
    port: int = 0

    def render(self, view: View, text_format: TextFormat) -> bytes:
        self.rendered.append(view)
        return self.exposition.render(view, text_format)

    def ask(self, path: str, method: str = "GET", **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(
                method, path, headers={k.replace("_", "-"): v for k, v in headers.items()}
            )
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()


@pytest.fixture
def running() -> Iterator[Running]:
    served = Running()
    site = Site(current_view=lambda: served.view, render=served.render, clock=served.clock)
    app = make_app(
        site, lambda: served.events.append("start"), lambda: served.events.append("stop")
    )
    listener = listen("127.0.0.1:0")
    served.port = listener.getsockname()[1]
    server = WebServer(app, listener)
    thread = threading.Thread(target=server.run, name="web")
    thread.start()
    yield served
    server.request_stop()
    thread.join(timeout=5)
    assert not thread.is_alive()
    assert served.events == ["start", "stop"]


@pytest.fixture
def site(running: Running) -> Running:
    """A server that has a View."""
    running.view = make_view()
    return running


@pytest.mark.parametrize(
    ("accept", "content_type", "last_line"),
    [
        ("", "text/plain; version=0.0.4; charset=utf-8", None),
        ("*/*", "text/plain; version=0.0.4; charset=utf-8", None),
        (
            OPENMETRICS,
            "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores",
            "# EOF",
        ),
        (
            "application/openmetrics-text;version=wrong",
            "text/plain; version=0.0.4; charset=utf-8",
            None,
        ),
    ],
    ids=["none", "any", "OpenMetrics", "a version that is none"],
)
def test_metrics_come_in_the_format_asked_for(
    site: Running, accept: str, content_type: str, last_line: str | None
) -> None:
    answer = site.ask("/metrics", accept=accept)
    assert (answer.status, answer.headers["content-type"]) == (200, content_type)
    assert 'gpu_memory_used_bytes{device="cuda:0"' in answer.text
    if last_line:
        assert answer.text.splitlines()[-1] == last_line
        families = list(from_openmetrics(answer.text))  # type: ignore[no-untyped-call]
        assert len(families) > 80


def test_gzip_is_the_same_body_in_less(site: Running) -> None:
    plain = site.ask("/metrics")
    zipped = site.ask("/metrics", accept_encoding="deflate, gzip")
    assert zipped.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert gzip.decompress(zipped.body) == plain.body
    assert len(zipped.body) < len(plain.body) / 3
    assert site.rendered == [site.view]


def test_head_has_the_headers_and_no_body(site: Running) -> None:
    full, head = site.ask("/metrics"), site.ask("/metrics", "HEAD")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == str(len(full.body))


def test_twenty_scrapers_of_one_view_render_it_once(site: Running) -> None:
    with ThreadPoolExecutor(20) as scrapers:
        bodies = set(scrapers.map(lambda _: site.ask("/metrics").body, range(20)))
    assert len(bodies) == 1
    assert site.rendered == [site.view]


def test_a_new_view_is_rendered_anew(site: Running) -> None:
    first = site.view
    site.ask("/metrics")
    site.view = make_view(dropped_bytes=2048)
    assert "vllm_memory_exporter_dropped_bytes_total 2048.0" in site.ask("/metrics").text
    assert site.rendered == [first, site.view]


def test_clients_that_ask_for_many_formats_do_not_fill_the_memory(site: Running) -> None:
    versions = [f"application/openmetrics-text;version=1.0.{n}" for n in range(40)]
    assert {site.ask("/metrics", accept=accept).status for accept in versions} == {200}


def test_the_view_as_json(site: Running) -> None:
    answer = site.ask("/api/view")
    view = json.loads(answer.body)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert view["devices"][0]["sample"]["memory"]["used_bytes"] == 600
    assert view["engines"][0]["contiguity_ratio"] == 17 / 42


def test_conflicts_as_json_oldest_first_with_redacted_command_lines(site: Running) -> None:
    first = co_tenant()
    site.view = make_view(conflicts=(first, replace(first, id=2)))
    answer = site.ask("/api/conflicts")
    conflicts = json.loads(answer.body)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert [conflict["id"] for conflict in conflicts] == [1, 2]
    assert (conflicts[0]["kind"], conflicts[0]["pid"]) == ("co_tenant", 4101)
    assert conflicts[0]["processes"][0]["command"] == "worker-1 --api-key ***"
    assert conflicts[0]["ended_unix_ns"] is None


def test_without_conflicts_the_list_is_empty(site: Running) -> None:
    site.view = make_view(conflicts=())
    assert site.ask("/api/conflicts").body == b"[]"


def test_command_lines_are_never_in_metrics(site: Running) -> None:
    assert "api-key" in site.ask("/api/conflicts").text
    assert "api-key" not in site.ask("/metrics").text


def test_the_landing_page_names_what_there_is_and_escapes_it(site: Running) -> None:
    site.view = make_view(replay="<tp4>")
    answer = site.ask("/", host='a"b')
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    pages = ("/metrics", "/api/view", "/api/conflicts")
    for part in (*pages, __version__, "Replay of <b>&lt;tp4&gt;</b>", "a&quot;b"):
        assert part in answer.text


@pytest.mark.parametrize("path", ["/metrics", "/", "/api/view", "/-/healthy", "/nowhere"])
def test_no_browser_guesses_a_content_type(site: Running, path: str) -> None:
    assert site.ask(path).headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["/nowhere", "/metrics/", "/api", "//metrics"])
def test_an_unknown_path_is_told_the_known_ones(site: Running, path: str) -> None:
    answer = site.ask(path)
    assert (answer.status, answer.headers["content-type"]) == (404, "text/plain; charset=utf-8")
    assert "/-/healthy" in answer.text
    assert "/metrics" in answer.text


def test_only_reading_is_allowed(site: Running) -> None:
    answer = site.ask("/metrics", "POST")
    assert (answer.status, set(answer.headers["allow"].split(", "))) == (405, {"GET", "HEAD"})


HEALTH = ("/-/healthy", "/healthz")
READY = ("/-/ready", "/readyz", "/metrics", "/api/view", "/api/conflicts")


def statuses(running: Running) -> tuple[set[int], set[int]]:
    return tuple({running.ask(path).status for path in paths} for paths in (HEALTH, READY))  # type: ignore[return-value]


def test_before_the_first_view_it_is_healthy_and_not_ready(running: Running) -> None:
    assert statuses(running) == ({200}, {503})
    assert running.ask("/metrics").text == "no View yet: the first samples are being taken\n"
    assert running.ask("/").status == 200


def test_a_pipeline_that_never_gives_a_view_is_unhealthy_after_10_s(running: Running) -> None:
    running.clock.advance(10.5)
    assert statuses(running) == ({503}, {503})
    assert running.ask("/-/healthy").text == "no new View for 10.5 s (limit 10 s)\n"


def test_a_pipeline_that_stands_still_is_unhealthy_and_shows_nothing_old(site: Running) -> None:
    site.clock.advance(10)
    assert statuses(site) == ({200}, {200})
    site.clock.advance(0.25)
    assert statuses(site) == ({503}, {503})
    assert site.ask("/metrics").text == "no new View for 10.2 s (limit 10 s)\n"
    site.view = make_view(published_monotonic_s=site.clock.monotonic())
    assert statuses(site) == ({200}, {200})


def test_a_slow_interval_has_ten_of_them_to_be_late(site: Running) -> None:
    site.view = make_view(interval_s=60.0)
    site.clock.advance(600)
    assert statuses(site) == ({200}, {200})
    site.clock.advance(1)
    assert statuses(site) == ({503}, {503})


def test_a_clock_that_stands_still_keeps_its_view(site: Running) -> None:
    first, again = site.ask("/metrics"), site.ask("/metrics")
    assert first.body == again.body


def test_a_failure_to_render_is_a_500_for_that_view_only(site: Running) -> None:
    works, site.exposition = site.exposition, None  # type: ignore[assignment]
    assert site.ask("/metrics").status == 500
    site.exposition, site.view = works, make_view()
    assert site.ask("/metrics").status == 200


def test_the_telemetry_path_can_be_another() -> None:
    make = make_site("/probe")
    app = make_app(make, lambda: None, lambda: None)
    assert "/probe" in {getattr(route, "path", "") for route in app.routes}


def test_the_telemetry_path_cannot_be_that_of_another_page() -> None:
    with pytest.raises(ConfigError, match="/api/view is that of another page"):
        make_app(make_site("/api/view"), lambda: None, lambda: None)


def make_site(telemetry_path: str) -> Site:
    return Site(
        current_view=lambda: None,
        render=Exposition().render,
        clock=ManualClock(0),
        telemetry_path=telemetry_path,
    )
