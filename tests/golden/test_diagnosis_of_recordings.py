"""What is diagnosed in what was measured: the cause that was there, and no other."""

from pathlib import Path

import pytest

from exporter.analysis.diagnosis import Diagnosis, History, advanced, diagnose
from exporter.analysis.diagnosis.finding import Cause, Verdict
from exporter.app import build_unpaced
from exporter.recordings import bundled_path
from exporter.records.source import Reading
from exporter.records.view import View
from exporter.settings import Settings
from tests.diagnosing import found, wrong

HERE = Path(__file__).parent


class Watch:
    """Takes Views as a subscriber of a pipeline."""

    def __init__(self) -> None:
        self.history: History | None = None

    def __call__(self, view: View, _readings: tuple[Reading, ...]) -> None:
        self.history = advanced(self.history, view)


def history_of(path: Path) -> History:
    watch = Watch()
    recorded = build_unpaced(Settings(), str(path))
    recorded.pipeline.subscribe(watch)
    recorded.start()
    assert watch.history is not None
    return watch.history


def diagnosis_of(path: Path) -> Diagnosis:
    return diagnose(history_of(path))


@pytest.mark.parametrize(
    ("recording", "expected"),
    [
        ("large_pool_cut", []),
        ("preemption_cut", [("act", "kv_exhausted")]),
        ("tp2_cotenant_cut", [("watch", "co_tenant"), ("watch", "blind_spot")]),
        ("tp4_cotenant", [("watch", "co_tenant")]),
        ("h200_exhaustion", [("act", "kv_exhausted"), ("watch", "co_tenant")]),
        ("h200x2_exhaustion", [("act", "kv_exhausted"), ("watch", "co_tenant")]),
        (
            "h200x2_engines",
            [("act", "kv_exhausted"), ("act", "kv_exhausted"), ("watch", "co_tenant")],
        ),
    ],
)
def test_the_cause_that_was_there_and_no_other_is_found(
    recording: str, expected: list[tuple[Verdict, Cause]]
) -> None:
    cuts = [*HERE.glob(f"{recording}.jsonl*")]
    diagnosis = diagnosis_of(cuts[0] if cuts else bundled_path(recording))
    bad = [finding for finding in diagnosis.findings if finding.verdict != "ok"]
    assert [(finding.verdict, finding.cause) for finding in bad] == expected
    assert diagnosis.is_ok == (not expected)
    assert all(finding.advice for finding in bad)


def test_an_engine_with_a_large_gap_and_room_is_fine() -> None:
    diagnosis = diagnosis_of(HERE / "large_pool_cut.jsonl")
    (line,) = found(diagnosis, "allocator").evidence
    assert "reserved - allocated up to 1.26 GB; 0 allocation retries in this time" in line


def test_an_exhausted_pool_is_told_by_its_preemptions_and_the_allocator_is_fine() -> None:
    diagnosis = diagnosis_of(HERE / "preemption_cut.jsonl")
    evidence = found(diagnosis, "kv_exhausted").evidence
    assert evidence[0].startswith("engine vllm-0/0: KV usage up to 0.993 of 2999 usable blocks")
    assert "43 preemptions in this time" in evidence
    assert "up to 137 requests waiting at 2026-11-29T13:00:41Z" in evidence
    assert found(diagnosis, "allocator").verdict == "ok"


def test_a_co_tenant_is_told_by_pid_primary_gpu_and_times_of_the_recording() -> None:
    while_there = "from 2026-11-29T13:47:35Z to 2026-11-29T13:47:54Z (19 s)"
    assert found(diagnosis_of(bundled_path("tp4_cotenant")), "co_tenant").evidence == (
        f"pid 2654: took 7.08 GB of cuda:1, its primary GPU, {while_there}",
        "engine vllm-0/0 rank 1 runs there; if it runs out of memory, all 4 ranks end",
        "took 0.55 GB of cuda:0",
    )


def test_a_rank_without_records_is_a_blind_spot_and_its_process_is_no_co_tenant() -> None:
    path = HERE / "tp2_cotenant_cut.jsonl"
    diagnosis = diagnosis_of(path)
    assert wrong(diagnosis).count("co_tenant") == 1
    assert found(diagnosis, "co_tenant").evidence[0].startswith("pid 1676: took 7.08 GB of cuda:1")
    (line,) = found(diagnosis, "blind_spot").evidence
    assert line.startswith("engine vllm-0/0: rank 1 tells nothing of its allocator")
    assert "1054" not in str(diagnosis)


def test_four_ranks_that_were_measured_differ_by_next_to_nothing() -> None:
    finding = found(diagnosis_of(bundled_path("tp4_cotenant")), "uneven_ranks")
    assert finding.verdict == "ok"
    (line,) = finding.evidence
    assert line == (
        "engine vllm-0/0: its 4 ranks differ at most by: KV pool 0.00 GB,"
        " torch's reserved 0.00 GB, memory outside torch 0.00 GB"
    )


def test_a_full_pool_under_tensor_parallel_is_told_with_its_co_tenant_and_the_rank_there() -> None:
    diagnosis = diagnosis_of(bundled_path("h200x2_exhaustion"))
    assert found(diagnosis, "kv_exhausted").evidence == (
        "engine vllm-0/0: KV usage up to 1.000 of 119996 usable blocks at 2026-11-29T18:47:02Z",
        "8 preemptions in this time",
        "up to 298 requests waiting at 2026-11-29T18:46:07Z",
        "its fullest GPU has 11.39 GB free at the end",
    )
    while_there = "from 2026-11-29T18:47:01Z to 2026-11-29T18:47:22Z"
    assert found(diagnosis, "co_tenant").evidence == (
        f"pid 1816 (python3): took 6.99 GB of cuda:1, its primary GPU, {while_there} (21 s)",
        f"cuda:1 was nearly full {while_there} (20 s)",
        "engine vllm-0/0 rank 1 runs there; if it runs out of memory, all 2 ranks end",
        "took 0.54 GB of cuda:0",
    )
    # the load's long prompts share nothing: nothing may be said of evicted prefixes
    (line,) = found(diagnosis, "prefix_cache").evidence
    assert "371456 of 3329085 tokens asked for were found: hit ratio 0.112" in line


def test_two_engines_that_are_both_exhausted_are_told_each_with_its_own_figures() -> None:
    diagnosis = diagnosis_of(HERE / "h200x2_engines.jsonl.gz")
    exhausted = [each for each in diagnosis.findings if each.cause == "kv_exhausted"]
    assert sorted(each.evidence for each in exhausted) == [
        (
            "engine vllm-0/0: KV usage up to 1.000 of 56079 usable blocks at 2026-11-29T18:51:28Z",
            "40 preemptions in this time",
            "up to 289 requests waiting at 2026-11-29T18:50:36Z",
            "its fullest GPU has 13.61 GB free at the end",
        ),
        (
            "engine vllm-0/1: KV usage up to 1.000 of 56079 usable blocks at 2026-11-29T18:51:22Z",
            "41 preemptions in this time",
            "up to 287 requests waiting at 2026-11-29T18:50:36Z",
            "its fullest GPU has 13.60 GB free at the end",
        ),
    ]
    assert "engine vllm-0/1 rank 0 runs there" in found(diagnosis, "co_tenant").evidence


def test_tokens_per_second_of_the_incident_stand_beside_its_memory() -> None:
    rows = diagnosis_of(bundled_path("h200_exhaustion")).timeline
    assert len(rows) == 17
    assert {rows[n + 1].ts_unix_s - rows[n].ts_unix_s for n in range(16)} == {4.0}
    row = rows[5]
    assert row.kv_usage_ratio == pytest.approx(57_138 / 57_166)
    assert row.memory_used_bytes == 148_900_282_368
    assert row.generation_tokens_per_second == pytest.approx(6764, abs=1)
    assert row.gpu_utilization_ratio == 1.0
