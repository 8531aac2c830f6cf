"""The last 60 s, exactly."""

import pytest

from exporter.history.sliding_window import SlidingWindow
from exporter.records.view import Window


def window_of(*samples: tuple[float, float], capacity: int = 100) -> SlidingWindow:
    window = SlidingWindow(capacity)
    for at_s, value in samples:
        window.add(at_s, value)
    return window


def test_no_samples_have_no_summary() -> None:
    assert SlidingWindow(10).summary(5.0) is None


def test_the_first_sample_is_published_at_once() -> None:
    assert window_of((7.0, 3.0)).summary(7.0) == Window(min=3.0, max=3.0, mean=3.0)


def test_the_summary_is_of_all_samples_in_the_span() -> None:
    window = window_of((0.0, 4.0), (10.0, 1.0), (20.0, 10.0))
    assert window.summary(20.0) == Window(min=1.0, max=10.0, mean=5.0)


def test_a_sample_exactly_60_s_old_still_counts_and_an_older_one_does_not() -> None:
    window = window_of((0.0, 9.0), (30.0, 2.0))
    assert window.summary(60.0) == Window(min=2.0, max=9.0, mean=5.5)
    assert window.summary(60.1) == Window(min=2.0, max=2.0, mean=2.0)


def test_samples_leave_the_window_although_no_new_one_comes() -> None:
    assert window_of((0.0, 9.0)).summary(61.0) is None


def test_beyond_its_capacity_the_oldest_samples_are_forgotten() -> None:
    window = window_of((0.0, 9.0), (1.0, 2.0), (2.0, 4.0), capacity=2)
    assert window.summary(2.0) == Window(min=2.0, max=4.0, mean=3.0)


def test_growth_is_newest_minus_oldest_within_the_span() -> None:
    window = window_of((0.0, 100.0), (30.0, 130.0), (70.0, 190.0))
    assert window.growth(70.0) == 60.0


def test_one_sample_has_no_growth() -> None:
    assert window_of((0.0, 100.0)).growth(1.0) is None


def test_a_window_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 sample, got 0"):
        SlidingWindow(0)
