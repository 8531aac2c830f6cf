"""Conflicts in what was measured: each co-tenant once, and nothing else."""

from pathlib import Path

import pytest

from exporter.recordings import bundled_path
from tests.conflicts import Watch

HERE = Path(__file__).parent
GPU_0 = "GPU-00000001-0000-4000-8000-000000000001"
GPU_1 = "GPU-00000002-0000-4000-8000-000000000002"


def test_four_gpus_have_one_co_tenant_on_gpu_1_and_its_context_on_gpu_0() -> None:
    watch = Watch()
    watch.play(bundled_path())
    (conflict,) = watch.told
    assert (conflict.kind, conflict.pid, conflict.uuid) == ("co_tenant", 2654, GPU_1)
    assert conflict.growth_bytes == {GPU_0: 545_259_520, GPU_1: 7_084_179_456}
    assert conflict.ts_unix_ns == 1_795_960_055_861_000_000
    assert watch.ended_unix_ns(1) == 1_795_960_074_831_000_000
    assert sum(sum(kinds.values()) for kinds in watch.state.counts.values()) == 1
    assert len(watch.state.counts) == 4


def test_two_gpus_have_one_co_tenant_although_rank_1_is_unknown() -> None:
    watch = Watch()
    watch.play(HERE / "tp2_cotenant_cut.jsonl")
    (conflict,) = watch.told
    assert (conflict.kind, conflict.pid, conflict.uuid) == ("co_tenant", 1676, GPU_1)
    assert conflict.growth_bytes == {GPU_0: 543_162_368, GPU_1: 7_082_082_304}
    assert conflict.ts_unix_ns == 1_795_958_108_212_000_000
    assert watch.ended_unix_ns(1) == 1_795_958_127_212_000_000


@pytest.mark.parametrize("name", ["large_pool_cut", "preemption_cut", "h200_torch"])
def test_an_engine_alone_has_no_conflict(name: str) -> None:
    watch = Watch()
    watch.play(HERE / f"{name}.jsonl")
    assert watch.told == []
