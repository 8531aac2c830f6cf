"""How scattered the allocator, the KV slots, the tables and the free queue are."""

import pytest
from msgspec.structs import replace

from exporter.analysis import fragmentation
from exporter.records.trace import FreeRuns, PageTable, Slots, TorchRecord

TORCH = TorchRecord(
    v=1,
    ts_unix_ns=1,
    pid=1,
    replica="r",
    engine="0",
    interval_s=1.0,
    rank=0,
    allocated_bytes=700,
    allocated_peak_bytes=760,
    reserved_bytes=1000,
    inactive_split_bytes=40,
    device_free_bytes=90,
)


def test_the_gap_is_reserved_minus_allocated_and_its_ratio_is_of_reserved() -> None:
    assert fragmentation.allocator_gap_bytes(TORCH) == 300
    assert fragmentation.allocator_gap_ratio(TORCH) == 0.3


def test_nothing_reserved_has_a_gap_of_0_and_no_ratio() -> None:
    empty = replace(TORCH, allocated_bytes=0, reserved_bytes=0)
    assert fragmentation.allocator_gap_bytes(empty) == 0
    assert fragmentation.allocator_gap_ratio(empty) is None


def test_an_unknown_part_leaves_the_gap_unknown() -> None:
    assert fragmentation.allocator_gap_bytes(replace(TORCH, reserved_bytes=None)) is None
    assert fragmentation.allocator_gap_ratio(replace(TORCH, allocated_bytes=None)) is None


def test_the_margin_is_the_reusable_gap_and_free_memory_less_what_the_peak_needs_on_top() -> None:
    # (300 − 40) + 90 − (760 − 700)
    assert fragmentation.oom_margin_bytes(TORCH) == 290


def test_the_margin_can_be_below_0() -> None:
    assert fragmentation.oom_margin_bytes(replace(TORCH, allocated_peak_bytes=1100)) == -50


def test_an_unknown_part_leaves_the_margin_unknown() -> None:
    for field in (
        "allocated_bytes",
        "allocated_peak_bytes",
        "reserved_bytes",
        "inactive_split_bytes",
        "device_free_bytes",
    ):
        assert fragmentation.oom_margin_bytes(replace(TORCH, **{field: None})) is None


def test_kv_fragmentation_is_the_share_of_allocated_slots_that_hold_no_token() -> None:
    assert fragmentation.kv_fragmentation(Slots(allocated=640, used=608)) == 0.05
    assert fragmentation.kv_fragmentation(Slots(allocated=0, used=0)) is None


def test_contiguity_is_contiguous_by_all_pages() -> None:
    assert fragmentation.contiguity(PageTable(num_pages=42, contiguous_pages=17)) == 17 / 42
    assert fragmentation.contiguity(PageTable(num_pages=0, contiguous_pages=0)) is None


def test_extents_are_breaks_plus_tables() -> None:
    # tables [5 6 7] [9 8] [3]: contiguous 3 + 1 + 1, so 6 − 5 + 3 runs: 567, 9, 8, 3
    assert fragmentation.extents(PageTable(num_pages=6, contiguous_pages=5, tables=3)) == 4
    assert fragmentation.extents(PageTable(num_pages=6, contiguous_pages=5)) is None


def test_free_queue_contiguity_is_of_the_blocks_walked() -> None:
    assert (
        fragmentation.free_queue_contiguity(FreeRuns(queue_walked=512, queue_contiguous=128))
        == 0.25
    )
    assert fragmentation.free_queue_contiguity(FreeRuns(runs=3)) is None
    assert fragmentation.free_queue_contiguity(FreeRuns(queue_walked=0)) is None


@pytest.mark.parametrize(
    ("minima_bytes", "grows"),
    [
        ([], None),
        ([1, 2, 3, 4, 5], None),
        ([1, 2, 3, 4, 5, 6], True),
        ([73_000_000, 1_260_000_000, *[1_260_000_000] * 5], False),
        ([1, 2, 3, 4, 4, 6], False),
        ([9, 1, 2, 3, 4, 5, 6], True),
        ([1, 2, 3, 4, 5, 6, 6], False),
    ],
    ids=["nothing", "five minutes", "five rises", "one step", "a rest", "after a fall", "ended"],
)
def test_a_gap_grows_when_its_minimum_rose_in_each_of_five_minutes(
    minima_bytes: list[int], grows: bool | None
) -> None:
    assert fragmentation.gap_grows(minima_bytes) is grows
