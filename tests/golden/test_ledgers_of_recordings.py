"""The ledger on what was measured: sums, golden rows worked out by hand, and plausible ranges."""

from pathlib import Path

import pytest

from exporter.recordings import bundled_path
from exporter.records.ledger import Ledger
from tests.ledgers import Moment, moments

HERE = Path(__file__).parent
TP4, TP2 = bundled_path(), HERE / "tp2_cotenant_cut.jsonl"
LARGE_POOL, PREEMPTION = HERE / "large_pool_cut.jsonl", HERE / "preemption_cut.jsonl"
TP2_FULL, ENGINES = bundled_path("h200x2_exhaustion"), HERE / "h200x2_engines.jsonl.gz"
ALL = (TP4, TP2, TP2_FULL, ENGINES, LARGE_POOL, PREEMPTION, HERE / "h200_torch.jsonl")
TOTAL_BYTES = 150_754_820_096
CONVERTED = pytest.mark.parametrize(
    ("path", "gpus", "least_non_torch", "most_non_torch"),
    [
        (LARGE_POOL, 1, 0.8e9, 1.0e9),
        (PREEMPTION, 1, 0.8e9, 1.0e9),
        (TP2, 1, 2.0e9, 2.7e9),  # rank 1 has no torch record
        (TP4, 4, 2.0e9, 2.7e9),
    ],
    ids=lambda value: value.stem if isinstance(value, Path) else "",
)


def ledger_at(path: Path, moment_ns: int, gpu: int) -> Ledger:
    before = [m for m in moments(path) if m.reading.ts_unix_ns <= moment_ns]
    return ledger_of(before[-1], gpu)


def ledger_of(moment: Moment, gpu: int) -> Ledger:
    return moment.ledgers.by_uuid[moment.reading.devices[gpu].facts.uuid]


def test_gpu_1_of_four_beside_a_co_tenant() -> None:
    ledger = ledger_at(TP4, 1_795_960_065_000_000_000, gpu=1)
    assert ledger.owners_bytes == {
        "driver_reserved": 644_939_776,
        "free": 132_285_726_720,
        "unattributed": 15_138_816,
        "other_processes": 7_084_179_456,
        "kv_active": 1_887_436_800,  # 3,600 of 6,000 blocks of 524,288 bytes
        "kv_unsplit": 1_257_766_912,
        "kv_null": 524_288,
        "torch_other": 4_201_695_744,
        "allocator_slack": 854_537_728,
        "non_torch": 2_522_873_856,
    }
    used_bytes = TOTAL_BYTES - 644_939_776 - 132_285_726_720
    assert ledger.effective_used_bytes == used_bytes - 1_257_766_912 - 854_537_728
    assert ledger.reasons == ()


def test_one_gpu_with_a_large_pool() -> None:
    ledger = ledger_at(LARGE_POOL, 1_795_956_239_982_000_000, gpu=0)
    assert ledger.owners_bytes == {
        "driver_reserved": 644_939_776,
        "free": 14_070_972_416,
        "unattributed": 9_240_576,
        "other_processes": 0,
        "kv_active": 3_141_533_696,  # 1,498 of 56,080 blocks of 2,097,152 bytes
        "kv_unsplit": 114_464_653_312,
        "kv_null": 2_097_152,
        "torch_other": 16_295_517_696,  # the weights, about 16.06e9, are in it
        "allocator_slack": 1_232_478_720,
        "non_torch": 893_386_752,
    }


def test_gpu_1_of_two_with_a_full_pool_beside_a_co_tenant() -> None:
    ledger = ledger_at(TP2_FULL, 1_795_978_030_194_000_000, gpu=1)
    assert ledger.owners_bytes == {
        "driver_reserved": 644_939_776,
        "free": 4_401_397_760,
        "unattributed": 15_138_816,
        "other_processes": 6_985_613_312,
        "kv_active": 125_463_166_976,  # 119,651 of 119,997 blocks of 1,048,576 bytes
        "kv_unsplit": 345 * 1_048_576,
        "kv_null": 1_048_576,
        "weights": 8_032_625_152,
        "graph_pool": 195_035_136,  # of which tensors hold 33,554,432
        "torch_other": 134_182_649_856 - 125_825_974_272 - 8_032_625_152 - 33_554_432,
        "allocator_slack": 135_434_076_160 - 134_182_649_856 - (195_035_136 - 33_554_432),
        "non_torch": 138_707_730_432 - 135_434_076_160,
    }
    assert ledger.reasons == ()


def test_gpus_of_two_engines_have_the_blocks_of_their_own_engine() -> None:
    # the pools are alike: 56,080 blocks of 2,097,152 bytes
    both = [ledger_at(ENGINES, 1_795_978_276_900_000_000, gpu) for gpu in (0, 1)]
    assert [ledger.owners_bytes["kv_active"] for ledger in both] == [
        56_003 * 2_097_152,
        55_959 * 2_097_152,
    ]
    assert both[0].owners_bytes["kv_unsplit"] == 76 * 2_097_152
    assert both[1].owners_bytes["kv_cached"] == 53 * 2_097_152
    assert both[1].owners_bytes["kv_free"] == 67 * 2_097_152
    others = [ledger.owners_bytes["other_processes"] for ledger in both]
    assert others == [543_162_368, 6_985_613_312]


@pytest.mark.parametrize("path", ALL, ids=[path.name.partition(".")[0] for path in ALL])
def test_owners_always_sum_to_total_and_none_is_negative(path: Path) -> None:
    seen = 0
    for moment in moments(path):
        for device in moment.reading.devices:
            owners = moment.ledgers.by_uuid[device.facts.uuid].owners_bytes
            assert device.sample is not None
            assert device.sample.memory is not None
            assert sum(owners.values()) == device.sample.memory.total_bytes
            assert min(owners.values()) >= 0
            seen += 1
    assert seen >= 9


@CONVERTED
def test_little_is_in_no_process_and_non_torch_is_as_measured(
    path: Path, gpus: int, least_non_torch: float, most_non_torch: float
) -> None:
    for moment in moments(path):
        for gpu in range(len(moment.reading.devices)):
            ledger = ledger_of(moment, gpu)
            assert ledger.reasons == ()
            assert ledger.owners_bytes["unattributed"] <= 0.001 * TOTAL_BYTES
            if gpu < gpus:
                assert least_non_torch <= ledger.owners_bytes["non_torch"] <= most_non_torch


def test_a_worker_without_a_record_is_given_no_owner() -> None:
    for moment in moments(TP2):
        owners = ledger_of(moment, 1).owners_bytes
        assert set(owners) == {"driver_reserved", "free", "unattributed", "other_processes"}
        assert owners["other_processes"] >= 17_903_386_624
        assert ledger_of(moment, 1).effective_used_bytes is None


def test_blocks_that_are_active_everywhere_leave_nothing_to_evict() -> None:
    fullest = max(
        moments(PREEMPTION), key=lambda moment: ledger_of(moment, 0).owners_bytes["kv_active"]
    )
    owners = ledger_of(fullest, 0).owners_bytes
    assert owners["kv_active"] + owners["kv_unsplit"] == 2999 * 2_097_152
    assert owners["kv_active"] > 0.9 * 2999 * 2_097_152
