"""What each cause's rules say of hand-made Views."""

from typing import Any

import pytest

from exporter.analysis.diagnosis.finding import Cause, Verdict
from exporter.records.conflict import Conflict
from exporter.records.view import View, Window
from tests.diagnosing import (
    S,
    at,
    changed,
    diagnosis_of,
    engine,
    findings,
    found,
    gpu,
    rank,
    wrong,
)
from tests.views import TS_UNIX_NS, bare_view, co_tenant, gpu_uuid

FULL = Window(min=0.5, max=0.97, mean=0.8)
ALL_CAUSES: list[Cause] = [
    "kv_exhausted",
    "co_tenant",
    "allocator",
    "prefix_cache",
    "scattered_tables",
    "throttling",
    "blind_spot",
]
SINCE = "since 2026-11-29T13:47:55Z, still there"
NAME = "engine blue-0/0"
MIB = 2**20


def busy(**changes: Any) -> tuple[View, View]:
    """Two Views 30 s apart; 20,000 tokens were asked for in between and 12,000 of them found."""
    counters = {"counters__query_tokens": 60_000.0, "counters__hit_tokens": 21_000.0}
    return at(0), at(30, engines=(engine(**{**counters, **changes}),))


def test_a_healthy_machine_has_each_cause_judged_and_ok() -> None:
    diagnosis = diagnosis_of(*busy())
    assert diagnosis.is_ok
    assert [finding.cause for finding in diagnosis.findings] == ALL_CAUSES
    assert all(finding.evidence and finding.advice is None for finding in diagnosis.findings)
    assert diagnosis.not_judged == ()


def test_of_a_machine_that_tells_nothing_no_cause_is_claimed() -> None:
    diagnosis = diagnosis_of(bare_view())
    assert {finding.cause for finding in diagnosis.findings} == {"blind_spot"}
    assert {gap.cause for gap in diagnosis.not_judged} == {*ALL_CAUSES} - {"blind_spot"}


@pytest.mark.parametrize(
    ("usage", "preemptions", "verdict"),
    [
        (0.94, 8, "ok"),
        (0.95, 8, "watch"),
        (0.95, 9, "act"),
        (0.94, 9, "watch"),
        (1.0, None, "watch"),
    ],
    ids=["below", "full", "full and preempting", "preempting below", "preemptions not told"],
)
def test_a_full_pool_that_preempts_is_exhausted(
    usage: float, preemptions: int | None, verdict: Verdict
) -> None:
    window = Window(min=0.1, max=usage, mean=0.3)
    first = at(0, engines=(engine(counters__preemptions=None if preemptions is None else 8),))
    last = at(30, engines=(engine(usage_window=window, counters__preemptions=preemptions),))
    finding = found(diagnosis_of(first, last), "kv_exhausted")
    assert finding.verdict == verdict
    assert (finding.advice is None) == (verdict == "ok")


def test_an_exhausted_pool_is_told_with_figures_and_times() -> None:
    last = at(30, engines=(engine(usage_window=FULL, counters__preemptions=20),))
    finding = found(diagnosis_of(at(0), last, at(31)), "kv_exhausted")
    assert finding.evidence == (
        "engine blue-0/0: KV usage up to 0.970 of 40 usable blocks at 2026-11-29T13:48:15Z",
        "12 preemptions in this time",
        "up to 14 requests waiting at 2026-11-29T13:47:45Z",
        "at its present trend full in 34 s",
        "its fullest GPU has 0.00 GB free at the end",
    )


def test_what_is_free_after_an_engine_has_ended_says_nothing_of_it() -> None:
    last = at(30, engines=(engine(usage_window=FULL, counters__preemptions=20),))
    ended = at(40, engines=(engine(is_up=False),), devices=(gpu(sample__memory__free_bytes=9 * S),))
    evidence = found(diagnosis_of(at(0), last, ended), "kv_exhausted").evidence
    assert not [line for line in evidence if "free at the end" in line]


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"counters__hit_tokens": 13_000.0}, "ok"),
        ({"counters__hit_tokens": 12_999.0}, "ok"),
        ({"counters__hit_tokens": 9_000.0, "kv__block_size": 784}, "watch"),
        ({"counters__hit_tokens": 9_001.0, "kv__block_size": 784}, "ok"),
        ({"counters__hit_tokens": 9_000.0, "kv__block_size": 32}, "ok"),
        (
            {"counters__hit_tokens": 9_500.0, "usage_window": FULL, "counters__evictions": 50},
            "watch",
        ),
        (
            {
                "counters__hit_tokens": 9_500.0,
                "usage_window": FULL,
                "counters__evictions": 50,
                "counters__preemptions": 20,
            },
            "ok",
        ),
        ({"counters__hit_tokens": 9_500.0, "usage_window": FULL, "counters__evictions": 19}, "ok"),
        ({"counters__hit_tokens": 9_500.0, "counters__evictions": 50}, "ok"),
        ({"counters__hit_tokens": 9_000.0, "facts__enable_prefix_caching": False}, "ok"),
    ],
    ids=[
        "a fifth found",
        "low and unexplained",
        "prefix shorter than a block",
        "large blocks that hit",
        "usual blocks",
        "too little pool",
        "an exhausted pool",
        "nothing evicted",
        "pool with room",
        "switched off",
    ],
)
def test_a_prefix_cache_is_ineffective_only_with_a_reason(
    changes: dict[str, Any], verdict: Verdict
) -> None:
    finding = found(diagnosis_of(*busy(**changes)), "prefix_cache")
    assert finding.verdict == verdict


def test_a_handful_of_prompts_says_nothing_of_the_prefix_cache() -> None:
    diagnosis = diagnosis_of(*busy(counters__query_tokens=49_999.0, counters__hit_tokens=9_000.0))
    assert findings(diagnosis, "prefix_cache") == []
    (gap,) = diagnosis.not_judged
    assert (gap.cause, gap.reason) == (
        "prefix_cache",
        "engine blue-0/0: 9999 tokens were asked for, 10000 are needed",
    )


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"fragmentation_bytes": 3_000_000_000}, "ok"),
        ({"alloc_retries": 1.0}, "act"),
        ({"ooms": 1.0}, "act"),
        ({"oom_margin_bytes": 0}, "ok"),
        ({"oom_margin_bytes": -1}, "act"),
    ],
    ids=["3 GB of gap alone", "retry", "out of memory", "margin of 0", "margin below 0"],
)
def test_a_gap_is_a_finding_only_with_a_symptom(changes: dict[str, Any], verdict: Verdict) -> None:
    finding = found(diagnosis_of(at(0), at(30, ranks=(rank(**changes),))), "allocator")
    assert finding.verdict == verdict
    assert ("expandable_segments:True" in (finding.advice or "")) == (verdict == "act")


def test_retries_of_before_are_something_to_watch() -> None:
    finding = found(diagnosis_of(at(0, ranks=(rank(alloc_retries=6.0),))), "allocator")
    assert finding.verdict == "watch"
    assert "0 allocation retries in this time, 6 before" in finding.evidence


@pytest.mark.parametrize(
    ("minutes", "verdict"),
    [
        ([100, 101, 102, 103, 104, 105, 0], "act"),
        ([100, 101, 102, 103, 104, 0], "ok"),
        ([100, 100, 500, 500, 500, 500, 500, 500, 0], "ok"),
        ([900, 100, 101, 102, 103, 104, 105, 0], "act"),
    ],
    ids=["five rises", "four rises", "one step", "five rises after a fall"],
)
def test_a_gap_that_rises_for_five_whole_minutes_grows(
    minutes: list[int], verdict: Verdict
) -> None:
    views = [
        at(60 * minute + second, ranks=(rank(fragmentation_bytes=gap * MIB + second),))
        for minute, gap in enumerate(minutes)
        for second in (45, 5)[:: -1 if minute else 1]
        if minute or second == 45
    ]
    views.insert(0, at(0, ranks=(rank(fragmentation_bytes=minutes[0] * MIB),)))
    assert found(diagnosis_of(*views), "allocator").verdict == verdict


@pytest.mark.parametrize(
    "changes",
    [{"torch__has_pluggable_allocator": True}, {"torch__is_asleep": True}],
    ids=["pluggable allocator", "asleep"],
)
def test_in_sleep_mode_the_margin_is_not_judged_and_expandable_segments_not_advised(
    changes: dict[str, Any],
) -> None:
    sleepy = rank(oom_margin_bytes=-5, **changes)
    assert found(diagnosis_of(at(0, ranks=(sleepy,))), "allocator").verdict == "ok"
    retrying = at(30, ranks=(changed(sleepy, alloc_retries=2.0),))
    finding = found(diagnosis_of(at(0, ranks=(sleepy,)), retrying), "allocator")
    assert finding.verdict == "act"
    assert "does not go with sleep mode" in (finding.advice or "")


def test_a_margin_that_was_told_as_a_conflict_between_two_views_counts() -> None:
    conflict = changed(
        co_tenant(),
        kind="margin",
        ts_unix_ns=TS_UNIX_NS + 10 * S,
        ended_unix_ns=TS_UNIX_NS + 11 * S,
        margin_bytes=-7_000_000_000,
    )
    finding = found(diagnosis_of(at(0), at(30, conflicts=(conflict,))), "allocator")
    assert finding.verdict == "act"
    assert "least margin -7.00 GB at 2026-11-29T13:47:55Z" in finding.evidence


def tenant(**changes: Any) -> Conflict:
    """Process 4101 took 7.2 GB of GPU 0 in second 10 and half a GB of GPU 1."""
    given = {
        "ts_unix_ns": TS_UNIX_NS + 10 * S,
        "ended_unix_ns": None,
        "growth_bytes": {gpu_uuid(0): 7_200_000_000, gpu_uuid(1): 540_000_000},
    }
    conflict: Conflict = changed(co_tenant(), **{**given, **changes})
    return conflict


def test_a_co_tenant_that_is_still_there_is_told_with_pid_gpu_and_bytes() -> None:
    diagnosis = diagnosis_of(at(0), at(30, conflicts=(tenant(),)))
    finding = found(diagnosis, "co_tenant")
    assert wrong(diagnosis) == ["co_tenant"]
    assert finding.verdict == "act"
    assert finding.evidence == (
        f"pid 4101 (worker-1): took 7.20 GB of cuda:0, its primary GPU, {SINCE}",
        "engine blue-0/0 rank 0 runs there",
        f"took 0.54 GB of {gpu_uuid(1)}",
    )


@pytest.mark.parametrize(
    ("ended_s", "verdict"),
    [(-1, "ok"), (0, "watch"), (20, "watch")],
    ids=["before", "at the start", "meanwhile"],
)
def test_a_co_tenant_that_went_is_told_if_it_was_there_in_this_time(
    ended_s: int, verdict: Verdict
) -> None:
    conflict = tenant(ts_unix_ns=TS_UNIX_NS - 9 * S, ended_unix_ns=TS_UNIX_NS + ended_s * S)
    assert found(diagnosis_of(at(0, conflicts=(conflict,))), "co_tenant").verdict == verdict


def test_a_gpu_that_a_co_tenant_filled_is_one_finding_not_two() -> None:
    full = tenant(id=2, kind="pressure")
    diagnosis = diagnosis_of(at(0), at(30, conflicts=(tenant(), full)))
    assert f"cuda:0 was nearly full {SINCE}" in found(diagnosis, "co_tenant").evidence


def test_a_gpu_that_expected_processes_filled_is_told_by_the_one_that_grew_most() -> None:
    diagnosis = diagnosis_of(at(0), at(30, conflicts=(tenant(kind="pressure"),)))
    assert found(diagnosis, "co_tenant").evidence[0] == (
        "pid 4101 (worker-1): most of the 7.20 GB that processes beside engines took of cuda:0, "
        + SINCE
    )


@pytest.mark.parametrize(
    ("connector", "contiguity", "verdict"),
    [
        (None, 0.01, "ok"),
        ("NixlConnector", 0.49, "watch"),
        ("NixlConnector", 0.5, "ok"),
    ],
    ids=["no transfer", "transfer of scattered pages", "transfer of runs"],
)
def test_scattered_tables_matter_only_where_kv_is_transferred(
    connector: str | None, contiguity: float, verdict: Verdict
) -> None:
    serving = engine(facts__kv_connector=connector, contiguity_ratio=contiguity)
    finding = found(diagnosis_of(at(0, engines=(serving,))), "scattered_tables")
    assert finding.verdict == verdict
    assert len(finding.evidence) == (2 if verdict == "watch" else 1)


@pytest.mark.parametrize(
    ("reason", "hot_views", "verdict"),
    [
        ("hw_thermal_slowdown", 1, "watch"),
        ("hw_thermal_slowdown", 2, "act"),
        ("hw_slowdown", 20, "act"),
        ("hw_power_brake_slowdown", 20, "act"),
        ("sw_thermal_slowdown", 20, "act"),
        ("sw_power_cap", 20, "ok"),
        ("gpu_idle", 20, "ok"),
    ],
)
def test_throttling_is_what_no_healthy_machine_shows(
    reason: str, hot_views: int, verdict: Verdict
) -> None:
    views = [
        at(second, devices=(gpu(sample__event_reasons={reason: second < hot_views}),))
        for second in range(20)
    ]
    finding = found(diagnosis_of(*views), "throttling")
    assert finding.verdict == verdict
    if verdict != "ok":
        assert f"cuda:0: {reason} in {hot_views} of 20 samples" in finding.evidence[0]
        assert "temperature (memory) 74 C at the end" in finding.evidence


@pytest.mark.parametrize(
    ("changes", "evidence"),
    [
        ({"engines": (), "ranks": ()}, "no engine was seen: neither trace nor metrics of vLLM"),
        ({"devices": ()}, "no GPU was seen"),
        (
            {"engines": (engine(facts__status="degraded", facts__reason="no_free_queue"),)},
            "engine blue-0/0: its plugin is degraded: no_free_queue",
        ),
        (
            {"engines": (engine(kv__origin="metrics", facts__origin="metrics"),), "ranks": ()},
            f"{NAME}: has no plugin: page tables, block states and the allocator are not told",
        ),
        (
            {"engines": (engine(facts__tensor_parallel_size=2, facts__pipeline_parallel_size=2),)},
            f"{NAME}: rank 1, 2, 3 tells nothing of its allocator: what it holds has no owner",
        ),
        (
            {"engines": (engine(facts=None),), "ranks": ()},
            "engine blue-0/0: no rank tells of its allocator: what it holds has no owner",
        ),
        (
            {"ranks": (rank(device=None),)},
            f"engine blue-0/0 rank 0: its GPU {gpu_uuid(0)} is not listed by the driver",
        ),
        (
            {"devices": (gpu(sample=None, is_up=False),)},
            "cuda:0: gives no figures at the end",
        ),
        (
            {"devices": (gpu(sample__processes=None),)},
            "cuda:0: the driver does not tell its processes or what they hold",
        ),
        (
            {"devices": (gpu(ledger__reasons=("pid_unknown",)),)},
            "cuda:0: its memory is not told apart: which process is the worker's is not known",
        ),
    ],
    ids=[
        "no engine",
        "no GPU",
        "plugin degraded",
        "no plugin",
        "ranks missing",
        "no rank",
        "GPU not listed",
        "GPU lost",
        "no processes",
        "pid unknown",
    ],
)
def test_what_was_not_seen_is_told(changes: dict[str, Any], evidence: str) -> None:
    spots = findings(diagnosis_of(at(0, **changes)), "blind_spot")
    assert [(spot.verdict, spot.evidence) for spot in spots] == [("watch", (evidence,))]
    assert spots[0].advice


def test_a_source_that_is_down_is_told_with_its_errors() -> None:
    (source,) = at(0).sources
    down = changed(source, is_up=False)
    finding = found(diagnosis_of(at(0, sources=(down,))), "blind_spot")
    assert finding.evidence == (
        "source nvml: down (gpu_is_lost), last read at 2026-11-29T13:47:44Z",
    )


def test_an_engine_that_fell_silent_is_told() -> None:
    finding = found(diagnosis_of(at(0), at(30, engines=(), ranks=())), "blind_spot")
    assert finding.evidence == ("engine blue-0/0: silent since 2026-11-29T13:47:45Z",)


def test_a_moment_in_which_memory_moved_is_no_blind_spot() -> None:
    moved = at(0, devices=(gpu(ledger__reasons=("memory_moved",)),))
    assert found(diagnosis_of(moved, at(1), at(2)), "blind_spot").verdict == "ok"


def test_each_engine_that_is_exhausted_has_a_finding_and_the_worst_come_first() -> None:
    second = engine(replica="green-1", usage_window=FULL)
    first = engine(usage_window=FULL, counters__preemptions=9)
    diagnosis = diagnosis_of(at(0), at(30, engines=(second, first)))
    told = [(finding.verdict, finding.evidence[0]) for finding in diagnosis.findings]
    assert [verdict for verdict, _ in told][:3] == ["act", "watch", "watch"]
    assert told[0][1].startswith("engine blue-0/0: KV usage")
    assert told[1][1].startswith("engine green-1/0: KV usage")
    assert told[2][1].startswith("engine green-1/0: rank 0 tells nothing")


def test_many_healthy_workers_are_told_in_eight_lines() -> None:
    ranks = tuple(rank(rank=number, torch__rank=number) for number in range(64))
    lines = found(diagnosis_of(at(0, ranks=ranks)), "allocator").evidence
    assert len(lines) == 8
    assert lines[-1] == "and 57 more like these"


def test_one_cause_that_lacks_its_data_everywhere_is_listed_once() -> None:
    silent = tuple(
        gpu(facts__index=index, facts__uuid=gpu_uuid(index), sample__event_reasons=None)
        for index in range(3)
    )
    gaps = diagnosis_of(at(0, devices=silent)).not_judged
    assert [gap.reason for gap in gaps if gap.cause == "throttling"] == [
        "cuda:0, cuda:1, cuda:2: clock event reasons are not told"
    ]
