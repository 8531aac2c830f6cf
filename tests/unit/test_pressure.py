"""How full a GPU's memory and a KV pool are."""

import pytest

from exporter.analysis import pressure
from exporter.records.device import DeviceMemory
from exporter.records.trace import Blocks


def test_device_pressure_leaves_out_what_the_driver_reserves() -> None:
    memory = DeviceMemory(total_bytes=1000, used_bytes=720, free_bytes=180, reserved_bytes=100)
    assert pressure.device_pressure(memory) == 0.8


def test_without_a_known_reservation_it_is_used_by_total() -> None:
    memory = DeviceMemory(total_bytes=1000, used_bytes=820, free_bytes=180)
    assert pressure.device_pressure(memory) == 0.82


def test_nothing_usable_has_no_pressure() -> None:
    memory = DeviceMemory(total_bytes=100, used_bytes=0, free_bytes=0, reserved_bytes=100)
    assert pressure.device_pressure(memory) is None


def test_kv_usage_leaves_out_the_null_block() -> None:
    assert pressure.kv_usage(Blocks(total=101, num_free=75)) == 0.25


def test_a_pool_of_only_the_null_block_has_no_usage() -> None:
    blocks = Blocks(total=1, num_free=0)
    assert pressure.kv_usage(blocks) is None
    assert pressure.kv_usage_peak(blocks) is None


def test_the_peak_is_told_or_else_the_present_usage() -> None:
    assert pressure.kv_usage_peak(Blocks(total=101, num_free=75, active_peak=60)) == 0.6
    assert pressure.kv_usage_peak(Blocks(total=101, num_free=75)) == 0.25


@pytest.mark.parametrize(
    ("times_s", "usages", "usage_now", "expected"),
    [
        # rises 0.01 a second from 0.50: 0.40 are left at 0.60
        pytest.param([0, 5, 10, 15, 20], [0.4, 0.45, 0.5, 0.55, 0.6], 0.6, 40.0, id="filling"),
        pytest.param([0, 5, 10, 15, 20], [0.6, 0.55, 0.5, 0.45, 0.4], 0.4, None, id="emptying"),
        pytest.param([0, 5, 10, 15, 20], [0.5] * 5, 0.5, None, id="level"),
        # 0.0004 a second over 20 s is 0.8 % of the pool: noise
        pytest.param(
            [0, 5, 10, 15, 20], [0.5, 0.502, 0.504, 0.506, 0.508], 0.508, None, id="noise"
        ),
        pytest.param([0, 5, 10, 15], [0.4, 0.45, 0.5, 0.55], 0.55, None, id="four-samples"),
        pytest.param([0, 1, 2, 3, 4], [0.1, 0.2, 0.3, 0.4, 0.5], 0.5, None, id="only-4-s"),
        pytest.param([0, 5, 10, 15, 20], [0.8, 0.85, 0.9, 0.95, 1.0], 1.0, 0.0, id="full"),
    ],
)
def test_exhaustion_is_what_is_left_by_the_slope(
    times_s: list[float], usages: list[float], usage_now: float, expected: float | None
) -> None:
    seconds = pressure.exhaustion_seconds(times_s, usages, usage_now)
    assert seconds == (expected if expected is None else pytest.approx(expected))
