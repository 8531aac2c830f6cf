"""What a heatmap's columns hold, by hand: maxima, gaps, what jitter may and may not do."""

import pytest

from exporter.history.column_history import ColumnHistory
from exporter.records.code import MISSING, code_of

GONE = MISSING


def one_row(interval_s: float = 0.5, *spans_s: float) -> ColumnHistory:
    return ColumnHistory(spans_s or (60.0,), interval_s, metrics=2)


def shown(history: ColumnHistory, since: int, metric: int = 0, window: int = 0) -> list[int]:
    return list(history.cells(window, metric, ["a"], since))


@pytest.mark.parametrize(
    ("ratio", "code"),
    [
        (None, MISSING),
        (float("nan"), MISSING),
        (0.0, 0),
        (0.6001, 6001),
        (0.00004, 0),
        (0.00006, 1),
        (1.0, 10_000),
        (1.5, 10_000),
        (-0.25, 0),
        (1e308, 10_000),
    ],
)
def test_a_ratio_is_a_code_in_ten_thousandths(ratio: float | None, code: int) -> None:
    assert code_of(ratio) == code


@pytest.mark.parametrize(
    ("span_s", "interval_s", "column_s", "columns"),
    [
        (60, 0.5, 0.5, 120),
        (60, 0.1, 0.5, 120),
        (300, 0.5, 2.5, 120),
        (900, 0.5, 7.5, 120),
        (60, 1, 1, 60),
        (60, 0.7, 0.7, 86),
        (900, 10, 10, 90),
        (60, 3600, 3600, 1),
    ],
)
def test_a_column_is_never_shorter_than_the_interval(
    span_s: float, interval_s: float, column_s: float, columns: int
) -> None:
    (window,) = ColumnHistory((span_s,), interval_s, metrics=1).windows
    assert (window.column_s, window.columns) == (column_s, columns)


def test_before_the_first_sample_there_is_nothing() -> None:
    history = one_row()
    assert history.column(0) is None
    assert shown(history, 0) == []
    assert history.events(0, ["a"], 0) == []


def test_a_column_holds_the_highest_of_its_samples_of_each_metric() -> None:
    history = one_row(0.1)
    for at_s, codes in ((10.0, (3, 70, 0)), (10.1, (9, 60, 0)), (10.4, (5, 80, 0))):
        history.observe(at_s, {"a": codes})
    history.observe(10.5, {"a": (4, 50, 0)})
    assert history.column(0) == 21
    assert shown(history, 19) == [GONE, 9, 4]
    assert shown(history, 19, metric=1) == [GONE, 80, 50]


def test_an_unknown_figure_is_a_gap_and_takes_no_known_one_away() -> None:
    history = one_row(0.1)
    history.observe(1.0, {"a": (MISSING, 0, 0)})
    assert shown(history, 2) == [MISSING]
    assert shown(history, 2, metric=1) == [0]
    history.observe(1.1, {"a": (5, MISSING, 0)})
    history.observe(1.2, {"a": (MISSING, MISSING, 0)})
    assert shown(history, 2) == [5]
    assert shown(history, 2, metric=1) == [0]


def test_a_sample_on_time_stands_for_the_column_that_it_just_missed() -> None:
    """Sampled every 500 ms, but 20 ms early and late: no sample lies in column 3."""
    history = one_row()
    history.observe(1.48, {"a": (7, 1, 2)})
    history.observe(2.02, {"a": (8, 1, 5)})
    assert shown(history, 2) == [7, 8, 8]
    assert history.events(0, ["a"], 2) == [(2, 0, 2), (4, 0, 5)]


def test_a_late_sample_leaves_a_gap() -> None:
    history = one_row()
    history.observe(1.0, {"a": (7, 1, 0)})
    history.observe(2.0, {"a": (8, 1, 0)})
    assert shown(history, 2) == [7, GONE, 8]


def test_coarse_windows_hold_the_highest_of_theirs() -> None:
    history = one_row(0.5, 60.0, 300.0, 900.0)
    for tick, code in enumerate((1, 2, 9, 3, 4, 5, 6)):
        history.observe(tick / 2, {"a": (code, 0, 1)})
    assert shown(history, 0) == [1, 2, 9, 3, 4, 5, 6]
    assert shown(history, 0, window=1) == [9, 6]
    assert shown(history, 0, window=2) == [9]
    assert history.events(1, ["a"], 0) == [(0, 0, 5), (1, 0, 2)]


def test_only_the_window_is_remembered_and_its_ring_goes_round() -> None:
    history = one_row()
    for tick in range(300):
        history.observe(tick / 2, {"a": (tick, 0, tick % 2)})
    assert shown(history, 180) == list(range(180, 300))
    assert history.events(0, ["a"], 296) == [(297, 0, 1), (299, 0, 1)]


@pytest.mark.parametrize("stall_s", [45.0, 60.0, 61.5, 3600.0])
def test_a_stall_is_a_gap_however_long(stall_s: float) -> None:
    history = one_row()
    history.observe(0.0, {"a": (7, 0, 3)})
    history.observe(stall_s, {"a": (8, 0, 0)})
    newest = int(2 * stall_s)
    expected = [GONE] * 119 + [8]
    if stall_s < 60:
        expected[119 - newest] = 7
    assert shown(history, newest - 119) == expected
    assert bool(history.events(0, ["a"], newest - 119)) == (stall_s < 60)


def test_rows_keep_their_history_in_any_order_and_lose_it_when_they_go() -> None:
    history = one_row()
    history.observe(0.0, {"a": (1, 0, 0), "b": (2, 0, 0)})
    history.observe(0.5, {"b": (4, 0, 9), "a": (3, 0, 0)})
    assert list(history.cells(0, 0, ["b", "a"], 0)) == [2, 1, 4, 3]
    assert history.events(0, ["b", "a"], 0) == [(1, 0, 9)]
    history.observe(1.0, {"a": (5, 0, 0)})
    history.observe(1.5, {"a": (6, 0, 0), "b": (8, 0, 0)})
    assert list(history.cells(0, 0, ["a", "b"], 0)) == [1, GONE, 3, GONE, 5, GONE, 6, 8]


def test_a_row_that_is_not_known_is_a_gap() -> None:
    history = one_row()
    history.observe(0.0, {"a": (1, 0, 1)})
    assert list(history.cells(0, 0, ["z", "a"], -1)) == [GONE, GONE, GONE, 1]
    assert history.events(0, ["z", "a"], -1) == [(0, 1, 1)]


def test_counts_end_where_16_bits_do() -> None:
    history = one_row(0.1)
    history.observe(0.0, {"a": (1, 0, 65_000)})
    history.observe(0.1, {"a": (1, 0, 70_000)})
    assert history.events(0, ["a"], 0) == [(0, 0, 65_535)]


def test_when_the_interval_grows_a_sample_stands_for_all_columns_since_the_one_before() -> None:
    history = one_row(0.5)
    history.observe(100.0, {"a": (1, 1, 0)})
    history.observe(100.5, {"a": (2, 2, 0)})
    history.interval_s = 2.0
    history.observe(102.5, {"a": (3, 3, 0)})
    assert shown(history, since=200) == [1, 2, 3, 3, 3, 3]
    history.observe(106.5, {"a": (4, 4, 0)})
    assert shown(history, since=205) == [3, GONE, GONE, GONE, GONE, GONE, GONE, GONE, 4]
