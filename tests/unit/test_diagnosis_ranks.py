"""What the diagnosis says of engines with several ranks, by hand."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from exporter.analysis.diagnosis import Diagnosis
from exporter.analysis.diagnosis.finding import Verdict
from exporter.records.conflict import Conflict
from exporter.records.ledger import Owner
from exporter.records.view import DeviceView, RankView, View
from tests.diagnosing import S, at, changed, diagnosis_of, engine, findings, found, gpu, rank
from tests.views import TS_UNIX_NS, co_tenant, gpu_uuid

GB = 1_000_000_000
NAME = "engine blue-0/0"


def worker(number: int, non_torch_bytes: int | None = 2_500_000_000, **torch: Any) -> RankView:
    """16 GB of weights, a KV pool of 40 GB, 60 GB reserved, 2.5 GB outside torch."""
    figures = {
        "rank": number,
        "uuid": gpu_uuid(number),
        "pp_rank": 0,
        "weights_bytes": 16 * GB,
        "kv_pool_bytes": 40 * GB,
        "allocated_bytes": 58 * GB,
        "reserved_bytes": 60 * GB,
    }
    parts = None if non_torch_bytes is None else {"non_torch": non_torch_bytes}
    record = replace(rank().torch, **{**figures, **torch})
    return rank(rank=number, device=number, torch=record, parts_bytes=parts)


def card(number: int, other_bytes: int = 0) -> DeviceView:
    owners: dict[Owner, int] = {"other_processes": other_bytes, "free": 80 * GB - other_bytes}
    return gpu(facts__index=number, facts__uuid=gpu_uuid(number), ledger__owners_bytes=owners)


def machine(
    seconds: float,
    ranks: Sequence[RankView],
    *,
    others: Sequence[int] = (),
    stages: int = 1,
    **changes: Any,
) -> View:
    """An engine of these ranks; `others`: bytes of other processes on each of their GPUs."""
    size = {
        "facts__tensor_parallel_size": len(ranks) // stages,
        "facts__pipeline_parallel_size": stages,
    }
    cards = tuple(card(each.rank, *others[n : n + 1]) for n, each in enumerate(ranks))
    given = {"engines": (engine(**size),), "devices": cards, "ranks": tuple(ranks)}
    return at(seconds, **{**given, **changes})


def uneven(diagnosis: Diagnosis) -> list[tuple[Verdict, tuple[str, ...]]]:
    return [(each.verdict, each.evidence) for each in findings(diagnosis, "uneven_ranks")]


def test_ranks_that_are_alike_are_fine_and_told_with_their_differences() -> None:
    ranks = [
        worker(0, 2_900_000_000, reserved_bytes=60_400_000_000),
        worker(1),
        worker(2, kv_pool_bytes=39_990_000_000),
    ]
    ((verdict, (line,)),) = uneven(diagnosis_of(machine(0, ranks)))
    assert verdict == "ok"
    assert line == (
        f"{NAME}: its 3 ranks differ at most by: weights 0.00 GB, KV pool 0.01 GB,"
        " torch's reserved 0.40 GB, memory outside torch 0.40 GB"
    )


def test_an_engine_of_one_rank_has_nothing_to_compare() -> None:
    diagnosis = diagnosis_of(machine(0, [worker(0)]))
    assert uneven(diagnosis) == []
    assert "uneven_ranks" not in {gap.cause for gap in diagnosis.not_judged}


@pytest.mark.parametrize(
    ("more_bytes", "verdict"), [(999_999_999, "ok"), (GB, "watch")], ids=["below 1 GB", "1 GB"]
)
def test_a_rank_that_holds_much_more_than_its_peers_is_named(
    more_bytes: int, verdict: Verdict
) -> None:
    ranks = [
        worker(0),
        worker(1),
        worker(2, 2_500_000_000 + more_bytes),
    ]
    ((told, evidence),) = uneven(diagnosis_of(machine(0, ranks)))
    assert told == verdict
    if verdict == "watch":
        assert evidence == (f"{NAME} rank 2: memory outside torch 3.50 GB; of rank 0 2.50 GB",)


def test_a_rank_with_more_weights_has_one_finding_with_all_that_follows() -> None:
    heavy = worker(1, weights_bytes=18 * GB, reserved_bytes=62 * GB)
    finding = found(diagnosis_of(machine(0, [worker(0), heavy])), "uneven_ranks")
    assert (finding.verdict, finding.evidence) == (
        "watch",
        (
            f"{NAME} rank 1: weights 18.00 GB; of rank 0 16.00 GB",
            "torch's reserved 62.00 GB; of rank 0 60.00 GB",
        ),
    )
    assert "draft model" in (finding.advice or "")


def stage(number: int, pp_rank: int, weights_gb: int, kv_gb: int) -> RankView:
    return worker(
        number,
        pp_rank=pp_rank,
        weights_bytes=weights_gb * GB,
        kv_pool_bytes=kv_gb * GB,
        allocated_bytes=(weights_gb + kv_gb + 1) * GB,
        reserved_bytes=(weights_gb + kv_gb + 2) * GB,
    )


def test_uneven_layers_are_told_by_pipeline_stage() -> None:
    ranks = [stage(0, 0, 12, 30), stage(1, 0, 12, 30), stage(2, 1, 16, 40), stage(3, 1, 16, 40)]
    finding = found(diagnosis_of(machine(0, ranks, stages=2)), "uneven_ranks")
    assert (finding.verdict, finding.evidence) == (
        "watch",
        (
            f"{NAME}: pipeline stage 0 (rank 0, 1): weights 12.00 GB, KV pool 30.00 GB",
            "pipeline stage 1 (rank 2, 3): weights 16.00 GB, KV pool 40.00 GB",
        ),
    )
    assert "VLLM_PP_LAYER_PARTITION" in (finding.advice or "")


@pytest.mark.parametrize(
    ("first", "last", "verdict"),
    [((16, 40), (17, 42), "ok"), ((16, 40), (18, 45), "watch"), ((3, 3), (3, 4), "watch")],
    ids=["3 of 59 GB", "7 of 63 GB", "1 of 7 GB"],
)
def test_stages_that_differ_by_less_than_a_tenth_are_normal(
    first: tuple[int, int], last: tuple[int, int], verdict: Verdict
) -> None:
    ranks = [stage(0, 0, *first), stage(1, 1, *last)]
    finding = found(diagnosis_of(machine(0, ranks, stages=2)), "uneven_ranks")
    assert finding.verdict == verdict


def growing(minute: int, number: int, step_bytes: int) -> RankView:
    return worker(number, allocated_bytes=50 * GB + minute * step_bytes)


@pytest.mark.parametrize(
    ("steps_bytes", "verdict"),
    [
        ((0, 0, 10_000_000), "act"),
        ((0, 0, 9_999_999), "ok"),
        ((20_000_000, 20_000_000, 20_000_000), "ok"),
        ((0, 0, 0), "ok"),
    ],
    ids=["one rank", "one rank, hardly", "all ranks", "none"],
)
def test_a_rank_whose_tensors_alone_grow_is_named(
    steps_bytes: tuple[int, ...], verdict: Verdict
) -> None:
    views = [
        machine(60 * minute, [growing(minute, n, step) for n, step in enumerate(steps_bytes)])
        for minute in range(7)
    ]
    ((told, evidence),) = uneven(diagnosis_of(*views))
    assert told == verdict
    if verdict == "act":
        rise = "each minute's minimum of its tensors rose from 50.00 GB to 50.05 GB"
        assert evidence == (
            f"{NAME} rank 2: {rise} in five minutes",
            "of its engine's 2 other ranks 0 grow like this",
        )


def test_a_rank_whose_gap_alone_grows_is_the_allocator_s_and_compared_with_its_peers() -> None:
    views = [
        machine(
            60 * minute,
            [
                changed(worker(number), fragmentation_bytes=GB + number * minute * 30_000_000)
                for number in range(2)
            ],
        )
        for minute in range(7)
    ]
    finding = found(diagnosis_of(*views), "allocator")
    assert finding.verdict == "act"
    assert finding.evidence[0].startswith(f"{NAME} rank 1: ")
    assert finding.evidence[-1] == "of its engine's 1 other ranks 0 grow like this"


def test_a_process_that_was_there_before_the_engine_is_told_by_rank_and_gpu() -> None:
    ranks = [worker(0), worker(1), worker(2)]
    view = machine(0, ranks, others=(540_000_000, 7_080_000_000, 0))
    finding = found(diagnosis_of(view), "uneven_ranks")
    assert finding.verdict == "watch"
    (line,) = finding.evidence
    assert line == (
        f"{NAME} rank 1: processes of no engine hold 7.08 GB of cuda:1;"
        " beside other ranks as little as 0.00 GB"
    )


@pytest.mark.parametrize(
    ("ended_s", "causes"),
    [(None, ["co_tenant"]), (20, ["co_tenant", "uneven_ranks"])],
    ids=["still there", "ended, and more than it is there"],
)
def test_a_process_that_came_while_it_served_is_one_finding_and_names_the_rank(
    ended_s: int | None, causes: list[str]
) -> None:
    conflict: Conflict = changed(
        co_tenant(),
        uuid=gpu_uuid(1),
        ts_unix_ns=TS_UNIX_NS + 10 * S,
        ended_unix_ns=None if ended_s is None else TS_UNIX_NS + ended_s * S,
        growth_bytes={gpu_uuid(1): 7_080_000_000},
    )
    ranks = [worker(0), worker(1)]
    last = machine(30, ranks, others=(0, 7_080_000_000), conflicts=(conflict,))
    diagnosis = diagnosis_of(machine(0, ranks), last)
    assert [each.cause for each in diagnosis.findings if each.verdict != "ok"] == causes
    assert found(diagnosis, "co_tenant").evidence[1] == (
        f"{NAME} rank 1 runs there; if it runs out of memory, all 2 ranks end"
    )


def test_a_rank_that_fell_silent_is_a_blind_spot_and_the_others_are_not_compared() -> None:
    ranks = [worker(0), worker(1)]
    later = changed(machine(30, ranks), ranks=(worker(0),))
    diagnosis = diagnosis_of(machine(0, ranks), later)
    assert uneven(diagnosis) == []
    assert ("uneven_ranks", f"{NAME}: not all of its ranks tell of their allocators") in [
        (gap.cause, gap.reason) for gap in diagnosis.not_judged
    ]
    assert found(diagnosis, "blind_spot").evidence == (
        f"{NAME} rank 1: silent since 2026-11-29T13:47:45Z, while its engine tells of itself",
    )


def test_an_engine_that_came_back_with_fewer_ranks_misses_none() -> None:
    cards = tuple(card(number) for number in range(4))
    fewer = machine(30, [worker(0), worker(1)], devices=cards)
    diagnosis = diagnosis_of(machine(0, [worker(number) for number in range(4)]), fewer)
    assert [verdict for verdict, _ in uneven(diagnosis)] == ["ok"]
    assert found(diagnosis, "blind_spot").verdict == "ok"


def test_an_engine_that_ended_is_compared_as_it_last_was() -> None:
    ranks = [worker(0), worker(1, weights_bytes=18 * GB)]
    gone = at(30, engines=(), ranks=(), devices=(card(0), card(1)))
    ((verdict, _),) = uneven(diagnosis_of(machine(0, ranks), gone))
    assert verdict == "watch"


def test_ranks_that_sleep_are_not_compared() -> None:
    ranks = [worker(n, None, is_asleep=True) for n in range(2)]
    diagnosis = diagnosis_of(machine(0, ranks))
    assert ("uneven_ranks", f"{NAME}: its ranks tell nothing that can be compared") in [
        (gap.cause, gap.reason) for gap in diagnosis.not_judged
    ]
