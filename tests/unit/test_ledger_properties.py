"""Whatever comes in, owners sum to total and none is negative.

Random machines are mostly right, so that all splits occur, and wrong in a few places.
"""

from typing import Any, NamedTuple, TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.analysis.ledger import ledgers
from exporter.analysis.worker import Worker
from exporter.records.device import DeviceMemory, DeviceSample, ProcessMemory
from exporter.records.trace import Blocks
from tests.readings import facts, kv, torch

UUIDS = ("GPU-a", "GPU-b")
SMALL = st.integers(0, 9)

Value = TypeVar("Value")


class Machine(NamedTuple):
    samples: dict[str, DeviceSample]
    workers: list[Worker]


def mostly(usual: Value, *seldom: Value) -> st.SearchStrategy[Value]:
    """`usual`, and once in twelve times something else."""
    return st.integers(0, 11).flatmap(
        lambda n: st.sampled_from(seldom) if n == 7 else st.just(usual)
    )


@st.composite
def engines(draw: st.DrawFn, uuid: str, pid: int) -> tuple[Worker, int]:
    """A worker and what its process holds."""
    total = draw(st.integers(1, 9))
    num_free = draw(st.integers(0, total - 1))
    cached = draw(st.none() | st.integers(0, num_free))
    block_bytes, weights, other, pool, slack, rest = (draw(SMALL) for _ in range(6))
    pool_tensors = draw(st.integers(0, pool))
    allocated = total * block_bytes + weights + other + pool_tensors
    told: dict[str, Any] = {
        "weights_bytes": draw(mostly(weights, None, 90)),
        "kv_pool_bytes": draw(mostly(total * block_bytes, None, total * block_bytes + 1)),
        "graph_pool_bytes": draw(mostly(pool, None, 5)),
        "graph_pool_allocated_bytes": draw(mostly(pool_tensors, None, 5)),
        "allocated_bytes": draw(mostly(allocated, None)),
        "reserved_bytes": draw(mostly(allocated + pool - pool_tensors + slack, None, 300)),
        "is_asleep": draw(mostly(None, True)),
        "uuid": draw(mostly(uuid, "GPU-unheard-of", *UUIDS)),
    }
    worker = Worker(
        replica="node-1",
        engine=str(pid),
        torch=torch(**told),
        torch_age_intervals=draw(mostly(0.5, 2.1)),
        kv=draw(mostly(kv(blocks=Blocks(total=total, num_free=num_free, cached=cached)), None)),
        kv_age_intervals=draw(mostly(0.5, 2.1)),
        facts=draw(mostly(facts(num_gpu_blocks=total), None, facts(num_gpu_blocks=total + 1))),
        host_pid=draw(mostly(pid, None, 20)),
    )
    return worker, (told["reserved_bytes"] or 0) + rest


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    samples, workers = {}, []
    for index, uuid in enumerate(UUIDS):
        held: dict[int, int | None] = draw(st.dictionaries(st.integers(30, 32), SMALL, max_size=2))
        for pid in range(20 + 5 * index, 20 + 5 * index + draw(st.integers(0, 2))):
            worker, process_bytes = draw(engines(uuid, pid))
            workers.append(worker)
            held[pid] = draw(mostly(process_bytes, None, -1))
        used = max(0, sum(used or 0 for used in held.values()) + draw(mostly(draw(SMALL), -5)))
        free, reserved = draw(SMALL), draw(st.none() | SMALL)
        total = used + free + (reserved or 0) + draw(mostly(0, 1))
        rows = tuple(ProcessMemory(pid=pid, used_bytes=used) for pid, used in held.items())
        samples[uuid] = DeviceSample(
            memory=DeviceMemory(
                total_bytes=total, used_bytes=used, free_bytes=free, reserved_bytes=reserved
            ),
            processes=draw(mostly(rows, None)),
            is_coherent=draw(mostly(True, False)),
        )
    return Machine(samples, workers)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(machines())
def test_owners_sum_to_total_and_none_is_negative(machine: Machine) -> None:
    result = ledgers(machine.samples, machine.workers)
    for uuid, sample in machine.samples.items():
        ledger, memory = result.by_uuid[uuid], sample.memory
        assert memory is not None
        if not ledger.owners_bytes:
            assert ledger.reasons == ("memory_contradictory",)
            continue
        assert sum(ledger.owners_bytes.values()) == memory.total_bytes
        assert min(ledger.owners_bytes.values()) >= 0
        if ledger.effective_used_bytes is not None:
            assert 0 <= ledger.effective_used_bytes <= memory.used_bytes
