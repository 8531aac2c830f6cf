"""Rendering with kept text is what prometheus_client writes, to the byte."""

from itertools import pairwise

import pytest
from msgspec.structs import replace

from exporter.clock import ManualClock
from exporter.pipeline import Pipeline
from exporter.recordings import bundled_path
from exporter.records.view import View
from exporter.sources.recording import Recording
from exporter.views.metrics.exposition import Exposition, FamilyText
from exporter.views.metrics.family import Sample
from exporter.views.metrics.text_format import PLAIN, TextFormat, text_format
from tests.views import bare_view, engine_view, gpu_view, make_view

OPENMETRICS = text_format("application/openmetrics-text; version=1.0.0")
FORMATS = pytest.mark.parametrize("wanted", [PLAIN, OPENMETRICS], ids=["text", "openmetrics"])


def families(text: bytes) -> list[str]:
    """The lines, less those about this very process, which changes between two renderings."""
    return [line for line in text.decode().split("\n") if " process_" not in f" {line}"]


def recorded_views() -> list[View]:
    """The Views of the bundled recording's first 40 s."""
    recording = Recording.load(bundled_path())
    clock = ManualClock(1_800_000_000_000_000_000)
    pipeline = Pipeline(clock, recording.header.interval_s, replay="tp4")
    views, now_s = [], 0.0
    for event in recording.events_until(40.0, clock.unix_ns()):
        clock.advance(event.at_s - now_s)
        now_s = event.at_s
        pipeline.offer(event.reading)
        views.append(pipeline.tick())
    return views


@FORMATS
def test_each_view_of_a_recording_reads_as_the_encoder_writes_it(wanted: TextFormat) -> None:
    kept = Exposition()
    for view in recorded_views():
        expected = wanted.encode(Exposition().registry_of(view))
        assert families(kept.render(view, wanted)) == families(expected)


@FORMATS
def test_series_that_come_go_and_change_their_labels_read_as_the_encoder_writes_them(
    wanted: TextFormat,
) -> None:
    hostile = replace(engine_view(), replica='we"ird\nname\\ \u2028 # {} 1.0')
    views = [
        make_view(published_monotonic_s=1.0),
        make_view(published_monotonic_s=2.0, devices=(gpu_view(0), gpu_view(1, processes=3))),
        make_view(published_monotonic_s=3.0, devices=(gpu_view(1),), engines=(hostile,)),
        bare_view(),
        make_view(published_monotonic_s=4.0, engines=()),
    ]
    kept = Exposition()
    for view in [*views, *reversed(views)]:
        expected = wanted.encode(Exposition().registry_of(view))
        assert families(kept.render(view, wanted)) == families(expected)


def test_text_is_kept_while_the_series_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    taken_apart: list[str] = []
    original = FamilyText.of

    def noted(samples: list[Sample], text: str) -> FamilyText:
        taken_apart.append(text)
        return original(samples, text)

    monkeypatch.setattr(FamilyText, "of", noted)
    kept = Exposition()
    first, second = make_view(published_monotonic_s=1.0), make_view(published_monotonic_s=2.0)
    kept.render(first, PLAIN)
    assert taken_apart
    taken_apart.clear()
    kept.render(second, PLAIN)
    assert taken_apart == []


def test_the_formats_that_are_kept_are_bounded() -> None:
    kept = Exposition()
    for minor in range(20):
        kept.render(bare_view(), TextFormat(f"version={minor}", PLAIN.encode))
    assert len(kept._kept) <= 4


def test_recorded_views_do_change() -> None:
    assert all(first != second for first, second in pairwise(recorded_views()))
