"""Counts per bucket since start."""

from exporter.history.sample_histogram import SampleHistogram
from exporter.records.source import Histogram


def test_a_value_equal_to_a_bound_belongs_to_it_and_beyond_the_last_there_is_one_more_bucket() -> (
    None
):
    histogram = SampleHistogram((0.5, 1.0))
    for value in (0.25, 0.5, 0.75, 4.0):
        histogram.observe(value)
    assert histogram.snapshot() == Histogram(bounds=(0.5, 1.0), counts=(2, 1, 1), total=5.5)
