"""Whatever comes in, owners sum to total and none is negative."""

import contextlib
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.analysis.ledger import ledgers
from exporter.analysis.worker import Worker
from exporter.records.device import DeviceMemory, DeviceSample, ProcessMemory
from exporter.records.trace import Blocks, EngineRecord, KvRecord, TorchRecord
from tests.readings import facts, kv, torch

UUIDS = ("GPU-a", "GPU-b")
PIDS = st.sampled_from([20, 21, 22])
BYTES = st.integers(0, 60)
UNSURE_BYTES = st.none() | BYTES
AGES = st.sampled_from([0.0, 2.0, 2.1])


@st.composite
def samples(draw: st.DrawFn) -> DeviceSample:
    used, free, reserved = draw(st.integers(0, 200)), draw(BYTES), draw(UNSURE_BYTES)
    total = used + free + (reserved or 0) + draw(st.sampled_from([0, 0, 0, 1, -1]))
    held = draw(st.none() | st.dictionaries(PIDS, st.none() | st.integers(-1, 90)))
    return DeviceSample(
        memory=DeviceMemory(
            total_bytes=total, used_bytes=used, free_bytes=free, reserved_bytes=reserved
        ),
        processes=held
        if held is None
        else tuple(ProcessMemory(pid=pid, used_bytes=used) for pid, used in held.items()),
        is_coherent=draw(st.booleans()),
    )


@st.composite
def torch_records(draw: st.DrawFn) -> TorchRecord:
    reserved, allocated = draw(UNSURE_BYTES), draw(UNSURE_BYTES)
    if reserved is not None and allocated is not None:
        reserved, allocated = max(reserved, allocated), min(reserved, allocated)
    optional: dict[str, Any] = {
        name: draw(UNSURE_BYTES | st.integers(0, 9))
        for name in (
            "weights_bytes",
            "kv_pool_bytes",
            "graph_pool_bytes",
            "graph_pool_allocated_bytes",
        )
    }
    return torch(
        rank=draw(st.integers(0, 1)),
        uuid=draw(st.sampled_from([*UUIDS, "GPU-unheard-of", None])),
        reserved_bytes=reserved,
        allocated_bytes=allocated,
        is_asleep=draw(st.sampled_from([None, False, False, True])),
        **optional,
    )


@st.composite
def kv_records(draw: st.DrawFn) -> KvRecord:
    pool: Blocks | None = None
    with contextlib.suppress(ValueError):  # a contradictory pool cannot exist: then there is none
        pool = Blocks(
            total=draw(st.integers(1, 9)),
            num_free=draw(st.integers(0, 8)),
            cached=draw(st.none() | st.integers(0, 4)),
        )
    return kv(blocks=pool)


@st.composite
def workers(draw: st.DrawFn) -> Worker:
    optional_facts: EngineRecord | None = draw(
        st.none() | st.builds(facts, num_gpu_blocks=st.none() | st.integers(1, 9))
    )
    return Worker(
        replica="node-1",
        engine=draw(st.sampled_from(["0", "1"])),
        torch=draw(torch_records()),
        torch_age_intervals=draw(AGES),
        kv=draw(st.none() | kv_records()),
        kv_age_intervals=draw(AGES),
        facts=optional_facts,
        host_pid=draw(st.none() | PIDS),
    )


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(samples(), min_size=2, max_size=2), st.lists(workers(), max_size=4))
def test_owners_sum_to_total_and_none_is_negative(
    gpus: list[DeviceSample], engine: list[Worker]
) -> None:
    result = ledgers(dict(zip(UUIDS, gpus, strict=True)), engine)
    for uuid, gpu in zip(UUIDS, gpus, strict=True):
        ledger, memory = result.by_uuid[uuid], gpu.memory
        assert memory is not None
        if not ledger.owners_bytes:
            assert ledger.reasons == ("memory_contradictory",)
            continue
        assert sum(ledger.owners_bytes.values()) == memory.total_bytes
        assert min(ledger.owners_bytes.values()) >= 0
        if ledger.effective_used_bytes is not None:
            assert 0 <= ledger.effective_used_bytes <= memory.used_bytes
