"""Which figures of a driver can be true."""

import pytest

from exporter.records.device import DeviceMemory
from exporter.sources.nvml_validation import (
    MemoryFigures,
    ProcessRow,
    device_memory,
    process_memory,
)

MIB = 1 << 20
NOT_AVAILABLE = (1 << 64) - 1


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        pytest.param((1000, 300, 600, 100), (1000, 300, 600, 100), id="v2 that adds up"),
        pytest.param((1000, 400, 600, None), (1000, 400, 600, None), id="v1 has no reserved"),
        pytest.param((1000, 0, 900, 100), (1000, 0, 900, 100), id="an idle GPU"),
        pytest.param(
            (100 * MIB, 30 * MIB, 60 * MIB, 11 * MIB),
            (100 * MIB, 30 * MIB, 60 * MIB, 10 * MIB),
            id="less than a page off: reserved is what is left",
        ),
        pytest.param((1000, 400, 600, 100), (1000, 400, 600, None), id="reserved is within used"),
    ],
)
def test_memory_that_can_be_true_is_kept(
    figures: MemoryFigures, expected: tuple[int, int, int, int | None]
) -> None:
    total, used, free, reserved = expected
    assert device_memory(figures) == DeviceMemory(
        total_bytes=total, used_bytes=used, free_bytes=free, reserved_bytes=reserved
    )


def test_a3_what_the_driver_keeps_is_not_used() -> None:
    # an idle H200: v1 has 644,939,776 bytes as used that v2 has as reserved
    total, reserved = 150_754_820_096, 644_939_776
    by_v2 = device_memory((total, 0, total - reserved, reserved))
    by_v1 = device_memory((total, reserved, total - reserved, None))
    assert by_v2 is not None
    assert by_v1 is not None
    assert (by_v2.used_bytes, by_v2.reserved_bytes) == (0, reserved)
    assert (by_v1.used_bytes, by_v1.reserved_bytes) == (reserved, None)


def test_a20_used_free_and_reserved_are_the_total() -> None:
    total, used, free = 150_754_820_096, 9_000_000_000, 141_109_879_320
    memory = device_memory((total, used, free, 644_939_776))  # a thousand bytes short
    assert memory is not None
    assert memory.reserved_bytes is not None
    assert memory.used_bytes + memory.free_bytes + memory.reserved_bytes == total


@pytest.mark.parametrize(
    "figures",
    [
        pytest.param((1000, NOT_AVAILABLE, 600, 100), id="used not available"),
        pytest.param((NOT_AVAILABLE, 300, 600, 100), id="total not available"),
        pytest.param((NOT_AVAILABLE, NOT_AVAILABLE, NOT_AVAILABLE, None), id="v1 not available"),
        pytest.param((1000, 1001, 0, None), id="used above total"),
        pytest.param((1000, 0, 1001, 0), id="free above total"),
        pytest.param((1000, 500, 600, None), id="used and free above total"),
        pytest.param((0, 0, 0, 0), id="no memory at all"),
        pytest.param((100 * MIB, 30 * MIB, 60 * MIB, 4 * MIB), id="6 MiB that nobody has"),
    ],
)
def test_memory_that_contradicts_itself_is_absent(figures: MemoryFigures) -> None:
    assert device_memory(figures) is None


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param([], {}, id="no process"),
        pytest.param([(41, 300), (7, 200)], {41: 300, 7: 200}, id="two processes"),
        pytest.param([(41, 300), (41, 120)], {41: 300}, id="listed twice: the larger, first"),
        pytest.param([(41, 120), (41, 300)], {41: 300}, id="listed twice: the larger, last"),
        pytest.param([(41, None), (41, 120)], {41: 120}, id="said in one list only, last"),
        pytest.param([(41, 120), (41, None)], {41: 120}, id="said in one list only, first"),
        pytest.param([(41, None), (7, 200)], {41: None, 7: 200}, id="bytes not available"),
        pytest.param([(41, 0)], {41: 0}, id="a process that holds nothing"),
        pytest.param([(41, 525)], {41: 525}, id="5 % above used"),
        pytest.param([(1 << 22, 5)], {1 << 22: 5}, id="the largest pid of Linux"),
    ],
)
def test_processes_that_can_be_true_are_kept(
    rows: list[ProcessRow], expected: dict[int, int | None]
) -> None:
    assert process_memory(rows, total_bytes=1000, used_bytes=500) == expected


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([(41, 300), (0, 5)], id="pid 0"),
        pytest.param([(41, 300), ((1 << 22) + 1, None)], id="a pid that Linux cannot give"),
        pytest.param([(41, 1001)], id="more than the GPU has"),
        pytest.param([(41, 300), (7, 226)], id="together more than 5 % above used"),
    ],
)
def test_one_impossible_row_spoils_the_list(rows: list[ProcessRow]) -> None:
    assert process_memory(rows, total_bytes=1000, used_bytes=500) is None


def test_unknown_device_memory_bounds_no_process() -> None:
    assert process_memory([(41, 7000)], total_bytes=None, used_bytes=None) == {41: 7000}
    assert process_memory([(41, 1 << 63)], total_bytes=None, used_bytes=None) is None
