"""How ranks of one engine differ, worked out by hand, as the pipeline's Views tell it."""

from collections.abc import Sequence
from typing import Any

import pytest

from exporter.clock import ManualClock
from exporter.pipeline import Pipeline
from exporter.records.device import Device, ProcessMemory
from exporter.records.ledger import RankOwner
from exporter.records.trace import TorchRecord
from exporter.records.view import View
from tests.readings import (
    START_UNIX_NS,
    blocks,
    device,
    device_reading,
    facts,
    kv,
    torch,
    trace_reading,
)

UUIDS = tuple(f"GPU-00000000-0000-0000-0000-00000000000{digit}" for digit in "abc")
TENANT = 77


def gpu(index: int, worker_bytes: int, tenant_bytes: int = 0) -> Device:
    """1000 bytes, 100 of them reserved, 7 in no process; the worker's pid is 20 + index."""
    processes = [ProcessMemory(pid=20 + index, used_bytes=worker_bytes)]
    if tenant_bytes:
        processes.append(ProcessMemory(pid=TENANT, used_bytes=tenant_bytes))
    used_bytes = worker_bytes + tenant_bytes + 7
    return device(used_bytes, index=index, uuid=UUIDS[index], processes=tuple(processes))


GPUS = (gpu(0, 603), gpu(1, 590, tenant_bytes=111), gpu(2, 600))


def rank(number: int, **changes: Any) -> TorchRecord:
    """Reserves 500 bytes and has given 420 to tensors: 150 of weights, a KV pool of 202."""
    figures = {
        "pid": 20 + number,
        "rank": number,
        "uuid": UUIDS[number],
        "reserved_bytes": 500,
        "allocated_bytes": 420,
        "weights_bytes": 150,
        "kv_pool_bytes": 202,
        "graph_pool_bytes": 30,
        "graph_pool_allocated_bytes": 10,
    }
    return torch(**{**figures, **changes})


RANKS = (
    rank(0, weights_bytes=163, reserved_bytes=505),
    rank(1, allocated_bytes=391),
    rank(2, graph_pool_bytes=34),
)


def view(
    ranks: Sequence[TorchRecord] = RANKS, gpus: Sequence[Device] = GPUS, **engine: Any
) -> View:
    pipeline = Pipeline(ManualClock(START_UNIX_NS, monotonic_s=5000.0), 0.5)
    engine_facts = facts(**{"num_gpu_blocks": 101, "tensor_parallel_size": 3, **engine})
    scheduler = kv(blocks=blocks(25, cached=30))
    pipeline.offer(trace_reading(engine_facts, scheduler, *ranks))
    pipeline.offer(device_reading(*gpus))
    return pipeline.tick()


def imbalance(*arguments: Any, **keywords: Any) -> dict[RankOwner, int] | None:
    (engine,) = view(*arguments, **keywords).engines
    return engine.rank_imbalance_bytes


def test_each_owner_differs_by_its_largest_less_its_smallest() -> None:
    assert imbalance() == {
        "weights": 163 - 150,
        "kv_pool": 0,
        "graph_pool": 34 - 30,
        "torch_other": 58 - 29,  # 420 − 202 − 10 − 150; rank 0: 45; rank 1: 29
        "allocator_slack": 89 - 56,  # 505 − 420 − 20 = 65; 500 − 391 − 20; 500 − 420 − 24
        "non_torch": 100 - 90,  # 603 − 505 = 98; 590 − 500; 600 − 500
        "torch_reserved": 505 - 500,
        "allocator_gap": 109 - 80,  # 85; 109; 80
        "other_processes": 111 - 0,
        "free": 293 - 192,  # 900 − 610 = 290; 900 − 708; 900 − 607
    }


def test_a_co_tenant_on_one_gpu_shows_in_its_gpu_and_nowhere_else() -> None:
    alike = [rank(number) for number in range(3)]
    alone = imbalance(alike, (gpu(0, 600), gpu(1, 600), gpu(2, 600)))
    shared = imbalance(alike, (gpu(0, 600), gpu(1, 600, tenant_bytes=120), gpu(2, 600)))
    assert alone is not None
    assert set(alone.values()) == {0}
    assert shared == {**alone, "other_processes": 120, "free": 120}


def test_the_parts_of_a_process_are_its_worker_s_own() -> None:
    parts = [each.parts_bytes for each in view().ranks]
    assert [sum((part or {}).values()) for part in parts] == [603, 590, 600]
    assert parts[1] == {
        "weights": 150,
        "kv_active": 50,
        "kv_cached": 60,
        "kv_free": 90,
        "kv_null": 2,
        "graph_pool": 30,
        "torch_other": 29,
        "allocator_slack": 89,
        "non_torch": 90,
    }


@pytest.mark.parametrize(
    ("ranks", "engine"),
    [
        (RANKS[:1], {"tensor_parallel_size": 1}),
        (RANKS[:1], {"tensor_parallel_size": None}),
        (RANKS[:2], {}),
        (RANKS, {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}),
        ((), {}),
    ],
    ids=["one rank", "one rank seen", "a rank missing", "a rank of a stage missing", "none"],
)
def test_ranks_that_are_not_all_seen_are_not_compared(
    ranks: Sequence[TorchRecord], engine: dict[str, Any]
) -> None:
    assert imbalance(ranks, **engine) is None


def test_without_its_facts_an_engine_has_the_ranks_that_are_seen() -> None:
    told = imbalance(RANKS[:2], tensor_parallel_size=None)
    assert told is not None
    assert (told["weights"], told["other_processes"]) == (13, 111)


@pytest.mark.parametrize(
    ("change", "absent"),
    [
        ({"weights_bytes": None}, {"weights", "torch_other", "allocator_slack"}),
        (
            {"graph_pool_bytes": None, "graph_pool_allocated_bytes": None},
            {"graph_pool", "torch_other", "allocator_slack"},
        ),
        ({"kv_pool_bytes": None}, {"kv_pool", "torch_other", "allocator_slack"}),
        (
            {"allocated_bytes": None},
            {"allocator_gap", "torch_other", "allocator_slack", "non_torch"},
        ),
        (
            {"is_asleep": True},
            {
                "weights", "kv_pool", "graph_pool", "torch_reserved", "allocator_gap",
                "torch_other", "allocator_slack", "non_torch",
            },
        ),
        (
            {"uuid": None},
            {"torch_other", "allocator_slack", "non_torch", "other_processes", "free"},
        ),
    ],
    ids=["weights", "graph pool", "KV pool", "allocated", "asleep", "its GPU"],
)  # fmt: skip
def test_what_one_rank_does_not_tell_is_not_compared(
    change: dict[str, Any], absent: set[RankOwner]
) -> None:
    everything = set(imbalance() or {})
    told = imbalance((*RANKS[:2], rank(2, **change)))
    assert told is not None
    assert everything - set(told) == absent


def test_a_gpu_that_cannot_be_read_takes_only_what_the_driver_tells() -> None:
    told = imbalance(gpus=(*GPUS[:2], device(None, index=2, uuid=UUIDS[2])))
    assert told == {
        "weights": 13, "kv_pool": 0, "graph_pool": 4, "torch_reserved": 5, "allocator_gap": 29,
    }  # fmt: skip


def test_engines_are_not_mixed() -> None:
    second = torch(engine="1", rank=0, pid=22, uuid=UUIDS[2], reserved_bytes=9)
    engines = view((*RANKS[:2], second), tensor_parallel_size=2).engines
    assert [engine.engine for engine in engines] == ["0"]
    assert (engines[0].rank_imbalance_bytes or {})["torch_reserved"] == 5
