"""Measured runs on several GPUs: engines and ranks told apart, ledgers, imbalance, co-tenants.

The figures were worked out from the recordings' lines.
"""

from pathlib import Path
from typing import NamedTuple

import pytest

from exporter import app
from exporter.recordings import bundled_path
from exporter.records.ledger import RankOwner
from exporter.settings import Settings
from tests.several_gpus import EngineKey, Sights, sights_of

HERE = Path(__file__).parent


class Run(NamedTuple):
    """One recording and what must be seen in it.

    `ranks`: GPU of each rank that tells of itself, by engine. `tenant`: pid, its primary GPU, and
    by how much it grew on each. `imbalance_bytes`: of the first engine, `at_s` after the first
    reading; None where not every rank is seen, or there is only one.
    """

    path: Path
    gpus: int
    ranks: dict[EngineKey, dict[int, int]]
    tenant: tuple[int, int, dict[int, int]]
    at_s: float
    imbalance_bytes: dict[RankOwner, int] | None


RUNS = [
    Run(
        path=bundled_path("tp4_cotenant"),
        gpus=4,
        ranks={("vllm-0", "0"): {0: 0, 1: 1, 2: 2, 3: 3}},
        tenant=(2654, 1, {0: 545_259_520, 1: 7_084_179_456}),
        at_s=36.2,
        imbalance_bytes={
            "torch_other": 2_048,  # as the gap: reserved is the same
            "allocator_slack": 2_048,
            "non_torch": 0,
            "other_processes": 7_084_179_456,
            "free": 139_375_738_880 - 132_285_726_720,
            "kv_pool": 0,
            "torch_reserved": 0,
            "allocator_gap": 854_538_752 - 854_536_704,
        },
    ),
    Run(
        path=HERE / "tp2_cotenant_cut.jsonl",
        gpus=2,
        ranks={("vllm-0", "0"): {0: 0}},
        tenant=(1676, 1, {0: 543_162_368, 1: 7_082_082_304}),
        at_s=10.0,
        imbalance_bytes=None,
    ),
    Run(
        path=bundled_path("h200x2_exhaustion"),
        gpus=2,
        ranks={("vllm-0", "0"): {0: 0, 1: 1}},
        tenant=(1816, 1, {0: 543_162_368, 1: 6_985_613_312}),
        at_s=85.0,
        imbalance_bytes={
            "torch_other": 134_182_653_952 - 134_182_649_856,  # allocated; the rest is the same
            "allocator_slack": 4_096,
            "non_torch": 0,
            "other_processes": 6_985_613_312 - 543_162_368,
            "free": 10_843_848_704 - 4_401_397_760,
            "weights": 0,
            "kv_pool": 0,
            "graph_pool": 0,
            "torch_reserved": 0,
            "allocator_gap": 4_096,
        },
    ),
    Run(
        path=HERE / "h200x2_engines.jsonl.gz",
        gpus=2,
        ranks={("vllm-0", "0"): {0: 0}, ("vllm-0", "1"): {0: 1}},
        tenant=(3752, 1, {0: 543_162_368, 1: 6_985_613_312}),
        at_s=55.0,
        imbalance_bytes=None,
    ),
]
IDS = [run.path.name.partition(".")[0] for run in RUNS]


@pytest.fixture(scope="module", params=RUNS, ids=IDS)
def played(request: pytest.FixtureRequest) -> tuple[Run, Sights]:
    run: Run = request.param
    return run, sights_of(run.path)


def test_each_gpu_has_a_row_in_every_sample(played: tuple[Run, Sights]) -> None:
    run, sights = played
    assert sorted(sights.gpus) == list(range(run.gpus))
    assert len(set(sights.gpus.values())) == 1


def test_engines_and_ranks_are_told_apart_on_their_own_gpus(played: tuple[Run, Sights]) -> None:
    run, sights = played
    assert sights.ranks == run.ranks
    assert sights.wrong_pressures == 0


def test_owners_sum_to_total_on_each_gpu_and_hardly_anything_is_in_no_process(
    played: tuple[Run, Sights],
) -> None:
    run, sights = played
    assert sights.ledgers == sum(sights.gpus.values()) > 0
    assert sights.wrong_sums == 0
    assert sorted(sights.unattributed_ratio) == list(range(run.gpus))
    assert max(sights.unattributed_ratio.values()) <= 0.001


def test_the_co_tenant_is_on_the_gpu_where_it_grew_most(played: tuple[Run, Sights]) -> None:
    run, sights = played
    assert list(sights.tenants.values()) == [run.tenant]


def test_ranks_differ_as_their_records_and_gpus_say(played: tuple[Run, Sights]) -> None:
    run, _ = played
    frozen = app.build(Settings(replay=str(run.path), replay_freeze_at_s=run.at_s))
    frozen.start()
    view = frozen.pipeline.view
    assert view is not None
    assert view.engines[0].rank_imbalance_bytes == run.imbalance_bytes
