"""Windows, histograms and counters against the plainest possible account of the same events."""

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from exporter.history.counter import ResetSafeCounter
from exporter.history.sample_histogram import SampleHistogram
from exporter.history.sliding_window import SlidingWindow

FIGURES = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e12, max_value=1e12)
STEPS = st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.5, 7.0, 30.0, 61.0]), FIGURES), max_size=80)


@given(steps=STEPS, capacity=st.integers(1, 20), later_s=st.sampled_from([0.0, 0.5, 30.0, 60.0]))
def test_a_window_is_the_newest_samples_of_its_span(
    steps: list[tuple[float, float]], capacity: int, later_s: float
) -> None:
    window = SlidingWindow(capacity)
    everything: list[tuple[float, float]] = []
    now_s = 1000.0
    for step_s, value in steps:
        now_s += step_s
        window.add(now_s, value)
        everything.append((now_s, value))
    now_s += later_s
    kept = [(at_s, value) for at_s, value in everything[-capacity:] if at_s >= now_s - 60.0]
    summary = window.summary(now_s)
    if not kept:
        assert summary is None
        assert window.growth(now_s) is None
        return
    values = [value for _, value in kept]
    assert summary is not None
    assert (summary.min, summary.max) == (min(values), max(values))
    mean = float(sum(map(Fraction, values)) / len(values))
    assert math.isclose(summary.mean, mean, rel_tol=1e-9, abs_tol=1e-2)
    assert window.growth(now_s) == (values[-1] - values[0] if len(values) > 1 else None)
    times_s, samples = window.samples(now_s)
    assert list(zip(times_s, samples, strict=True)) == kept


@given(
    bounds=st.lists(FIGURES, min_size=1, max_size=8, unique=True).map(sorted).map(tuple),
    data=st.data(),
)
def test_a_histogram_counts_each_sample_in_the_first_bucket_that_holds_it(
    bounds: tuple[float, ...], data: st.DataObject
) -> None:
    histogram = SampleHistogram(bounds)
    values = data.draw(st.lists(FIGURES | st.sampled_from(bounds)))
    for value in values:
        histogram.observe(value)
    shown = histogram.snapshot()
    cumulative = [sum(value <= bound for value in values) for bound in bounds]
    assert [sum(shown.counts[: n + 1]) for n in range(len(bounds))] == cumulative
    assert sum(shown.counts) == len(values)
    assert math.isclose(shown.total, math.fsum(values), rel_tol=1e-9, abs_tol=1e-2)


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("counts"), st.integers(0, 3), st.integers(0, 100)),
        st.tuples(st.just("restarts"), st.integers(0, 3), st.integers(0, 100)),
        st.tuples(st.just("is silent"), st.integers(0, 3), st.just(0)),
    )
)


@given(events=EVENTS)
def test_c7_a_counter_never_goes_back_and_loses_only_what_a_restart_hid(
    events: list[tuple[str, int, int]],
) -> None:
    """A restart whose count is already past the former one cannot be told from growth."""
    counter = ResetSafeCounter()
    raws = dict.fromkeys(range(4), 0)
    total, shown = 0, 0.0
    for what, writer, number in events:
        before = raws[writer]
        if what == "is silent":
            assert counter.update(None, writer) is False
            continue
        raws[writer] = number if what == "restarts" else before + number
        went_back = raws[writer] < before
        assert counter.update(raws[writer], writer) is went_back
        total += raws[writer] if went_back else raws[writer] - before
        assert counter.total == total >= shown
        shown = counter.total
