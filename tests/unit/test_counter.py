"""Counters that never go back."""

import pytest

from exporter.history.counter import MAX_WRITERS, ResetSafeCounter

Update = tuple[float | None, int | None]


@pytest.mark.parametrize(
    ("updates", "total"),
    [
        pytest.param([], None, id="never-told-is-unknown"),
        pytest.param([(None, 1)], None, id="not-told-is-unknown"),
        pytest.param([(0, 1)], 0, id="zero-is-a-count"),
        pytest.param([(900, 1)], 900, id="what-was-counted-before-we-looked-is-part-of-it"),
        pytest.param([(900, 1), (950, 1)], 950, id="growth-is-added"),
        pytest.param([(900, 1), (12, 1)], 912, id="going-back-is-a-new-start-from-0"),
        pytest.param([(900, 1), (12, 2)], 912, id="a-new-process-starts-from-0"),
        pytest.param([(900, 1), (950, 2)], 1850, id="even-when-its-count-is-higher"),
        pytest.param([(900, 1), (None, 1), (910, 1)], 910, id="a-gap-changes-nothing"),
        pytest.param([(5, 1), (7, 2), (6, 1)], 13, id="two-processes-add-up"),
    ],
)
def test_total(updates: list[Update], total: float | None) -> None:
    counter = ResetSafeCounter()
    for raw, pid in updates:
        counter.update(raw, pid)
    assert counter.total == total


def test_only_going_back_within_one_process_is_told() -> None:
    counter = ResetSafeCounter()
    assert [counter.update(raw, pid) for raw, pid in [(9, 1), (10, 1), (3, 2), (2, 2)]] == [
        False,
        False,
        False,
        True,
    ]


def test_the_memory_of_processes_is_bounded() -> None:
    counter = ResetSafeCounter()
    for pid in range(MAX_WRITERS + 1):
        counter.update(1, pid)
    assert len(counter._last_raw) == MAX_WRITERS
    assert counter.total == MAX_WRITERS + 1
