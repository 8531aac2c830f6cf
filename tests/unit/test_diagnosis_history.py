"""What is kept of a sequence of Views, and the time-aligned table made of it."""

from collections.abc import Iterator

import pytest

from exporter.analysis.diagnosis import timeline
from exporter.analysis.diagnosis.history import KEPT_MINUTES, Count, Extreme
from exporter.records.view import View
from tests.diagnosing import S, at, engine, gpu, history_of, rank
from tests.views import TS_UNIX_NS

KEY = ("blue-0", "0")
RANK = ("blue-0", "0", 0)


def test_counts_are_kept_first_last_and_by_growth() -> None:
    told: list[float | None] = [5.0, None, 9.0, 2.0, 4.0]
    views = [
        at(second, engines=(engine(counters__preemptions=count),))
        for second, count in enumerate(told)
    ]
    assert history_of(views).engines[KEY].preemptions == Count(5.0, 4.0, 6.0)


def test_extremes_keep_the_time_when_they_were_first_seen() -> None:
    views = [
        at(second, ranks=(rank(fragmentation_bytes=gap, oom_margin_bytes=-gap),))
        for second, gap in enumerate([100, 300, 300, 200])
    ]
    kept = history_of(views).ranks[RANK]
    assert kept.gap_peak_bytes == Extreme(300, TS_UNIX_NS + S)
    assert kept.margin_least_bytes == Extreme(-300, TS_UNIX_NS + S)


def test_what_is_no_longer_told_keeps_its_newest_figures() -> None:
    gone = at(1, engines=(), ranks=(), devices=())
    history = history_of([at(0), gone])
    assert not history.engines[KEY].is_up
    assert history.engines[KEY].kv == at(0).engines[0].kv
    assert history.engines[KEY].last_up_unix_ns == TS_UNIX_NS
    (device,) = history.devices.values()
    assert (device.is_up, device.sampled_views) == (False, 1)


def test_only_the_last_minutes_of_a_gap_are_kept() -> None:
    minutes = KEPT_MINUTES + 4
    views = [
        at(60 * minute, ranks=(rank(fragmentation_bytes=1000 + minute),))
        for minute in range(minutes)
    ]
    gaps = history_of(views).ranks[RANK].minute_gaps_bytes
    assert gaps == {minute: 1000 + minute for minute in range(4, minutes)}


def steady(seconds: int) -> Iterator[View]:
    """One View a second: 100 prompt and 40 generated tokens a second, memory and usage rise."""
    for second in range(seconds):
        serving = engine(
            kv__ts_unix_ns=TS_UNIX_NS + second * S,
            counters__prompt_tokens=7000.0 + 100 * second,
            counters__generation_tokens=2500.0 + 40 * second,
            usage_ratio=second / 1000,
        )
        device = gpu(
            sample__memory__used_bytes=600 + second,
            sample__gpu_utilization_ratio=0.5 if second % 2 else 0.7,
        )
        yield at(second, engines=(serving,), devices=(device,))


@pytest.mark.parametrize(
    ("seconds", "rows", "spacing_s"),
    [(1, 1, 1), (20, 20, 1), (21, 11, 2), (40, 20, 2), (600, 19, 32)],
)
def test_the_table_has_at_most_20_rows_at_an_even_spacing(
    seconds: int, rows: int, spacing_s: int
) -> None:
    table = list(timeline.rows(history_of(list(steady(seconds))).timeline))
    assert len(table) == rows
    begin_s = TS_UNIX_NS / 1e9
    assert [row.ts_unix_s for row in table] == [
        pytest.approx(begin_s + number * spacing_s) for number in range(rows)
    ]


def test_a_row_has_rates_mean_utilization_and_the_highest_memory_and_usage() -> None:
    table = list(timeline.rows(history_of(list(steady(40))).timeline))
    assert [row.prompt_tokens_per_second for row in table] == [100.0] * 20
    assert [row.generation_tokens_per_second for row in table] == [40.0] * 20
    assert table[7].gpu_utilization_ratio == pytest.approx(0.6)
    assert table[7].memory_used_bytes == 615
    assert table[7].kv_usage_ratio == 0.015


def test_a_row_tells_no_rate_without_new_records_and_nothing_that_is_not_told() -> None:
    dark = gpu(sample=None, is_up=False)
    silent = engine(kv=None, usage_ratio=None)
    views = [at(0), at(1), at(2, devices=(dark,), engines=(silent,))]
    first, second, third = timeline.rows(history_of(views).timeline)
    assert first.prompt_tokens_per_second is None
    assert second.prompt_tokens_per_second is None
    assert (third.gpu_utilization_ratio, third.memory_used_bytes) == (None, None)
    assert (third.kv_usage_ratio, third.generation_tokens_per_second) == (None, None)


def test_an_engine_that_appears_late_brings_no_burst_of_tokens() -> None:
    late = engine(replica="green-1", kv__ts_unix_ns=TS_UNIX_NS + 5 * S)
    views = [at(0), at(5, engines=(engine(), late))]
    assert [row.prompt_tokens_per_second for row in timeline.rows(history_of(views).timeline)] == [
        None,
        None,
    ]


def test_a_clock_that_is_set_back_breaks_nothing() -> None:
    history = history_of([at(0), at(-3600), at(1)])
    assert history.views == 3
    assert history.last_unix_ns == TS_UNIX_NS + S
