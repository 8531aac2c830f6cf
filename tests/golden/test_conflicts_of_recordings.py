"""Conflicts in what was measured: each co-tenant once, and nothing else."""

from pathlib import Path

import pytest

from exporter import app
from exporter.recordings import bundled_path
from exporter.records.view import View
from exporter.settings import Settings
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


def view_after(recording: Path, seconds: float) -> View:
    """What the program shows of a recording's first seconds."""
    frozen = app.build(Settings(replay=str(recording), replay_freeze_at_s=seconds))
    frozen.start()
    view = frozen.pipeline.view
    assert view is not None
    return view


def test_the_program_shows_the_co_tenant_of_four_gpus() -> None:
    view = view_after(bundled_path(), 57.0)
    (conflict,) = view.conflicts
    assert (conflict.kind, conflict.pid, conflict.uuid) == ("co_tenant", 2654, GPU_1)
    assert conflict.ended_unix_ns is not None
    assert [(row.uuid, row.used_bytes) for row in conflict.processes if row.pid == 2654] == [
        (GPU_0, 545_259_520),
        (GPU_1, 7_084_179_456),
    ]
    nothing = {"co_tenant": 0, "pressure": 0, "margin": 0}
    assert [gpu.conflicts for gpu in view.devices] == [
        nothing,
        {**nothing, "co_tenant": 1},
        nothing,
        nothing,
    ]
    assert sum(view.ledger_incoherent.values()) == 0


def test_each_lap_of_a_replay_has_its_co_tenant_once() -> None:
    laps = 3
    view = view_after(bundled_path(), laps * 57.0)
    assert [(conflict.id, conflict.pid, conflict.uuid) for conflict in view.conflicts] == [
        (1, 2654, GPU_1),
        (2, 2654, GPU_1),
        (3, 2654, GPU_1),
    ]
    onsets_s = [conflict.ts_unix_ns / 1e9 for conflict in view.conflicts]
    assert onsets_s[1] - onsets_s[0] == pytest.approx(57.0, abs=0.1)
    assert view.devices[1].conflicts == {"co_tenant": laps, "pressure": 0, "margin": 0}
    assert sum(view.ledger_incoherent.values()) == 0
