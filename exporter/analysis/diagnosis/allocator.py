"""Cause: torch's allocator fails, or is about to: retries, a gap that grows, a margin below 0.

A gap (reserved − allocated) alone is no finding, however large: most healthy engines hold one.
"""

from collections.abc import Iterator

from exporter.analysis.diagnosis.finding import (
    Finding,
    Judgement,
    NotJudged,
    Verdict,
    gigabytes,
    moment,
    rank_name,
)
from exporter.analysis.diagnosis.history import History, RankHistory
from exporter.analysis.fragmentation import gap_grows

_ADVICE = (
    "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True for the engine and restart it; if that"
    " does not help, lower --gpu-memory-utilization or --max-num-batched-tokens."
)
_ADVICE_SLEEP_MODE = (
    "Lower --gpu-memory-utilization or --max-num-batched-tokens; expandable_segments does not go"
    " with sleep mode or another allocator of its own."
)


def judged(history: History) -> Iterator[Judgement]:
    """One judgement a worker."""
    for rank in history.ranks.values():
        yield _judged(rank, _has_sleep_mode(rank, history))


def _judged(rank: RankHistory, has_sleep_mode: bool) -> Judgement:
    name = rank_name(rank.replica, rank.engine, rank.rank)
    gap, margin = rank.gap_peak_bytes, rank.margin_least_bytes
    retries, ooms = rank.retries, rank.ooms
    if has_sleep_mode:  # reserved, and all that is made of it, does not tell what torch holds
        gap = margin = None
    grows = None if has_sleep_mode else gap_grows(_minima(rank))
    if retries is None and ooms is None and margin is None and grows is None:
        return NotJudged(
            "allocator", f"{name}: neither retries nor margin nor six minutes of its gap were told"
        )
    verdict: Verdict = "ok"
    evidence = []
    if gap:
        evidence.append(f"{name}: reserved - allocated up to {gigabytes(gap.value)}")
    if retries:
        evidence.append(
            f"{name}: {retries.growth:.0f} allocation retries in this time,"
            f" {retries.first:.0f} before"
        )
        verdict = "act" if retries.growth else "watch" if retries.first else "ok"
    if ooms and ooms.last:
        evidence.append(
            f"{name}: {ooms.growth:.0f} out-of-memory errors in this time, {ooms.first:.0f} before"
        )
        verdict = "act" if ooms.growth or verdict == "act" else "watch"
    if margin:
        evidence.append(
            f"{name}: least margin {gigabytes(margin.value)} at {moment(margin.ts_unix_ns)}"
        )
        if margin.value < 0:
            verdict = "act"
    if grows:
        minima = _minima(rank)
        evidence.append(
            f"{name}: the gap's minimum of each minute rose from {gigabytes(minima[-6])}"
            f" to {gigabytes(minima[-1])} in five minutes"
        )
        verdict = "act"
    if verdict == "ok":
        return Finding(cause="allocator", verdict="ok", evidence=tuple(evidence))
    advice = _ADVICE_SLEEP_MODE if has_sleep_mode else _ADVICE
    return Finding(cause="allocator", verdict=verdict, evidence=tuple(evidence), advice=advice)


def _has_sleep_mode(rank: RankHistory, history: History) -> bool:
    engine = history.engines.get((rank.replica, rank.engine))
    facts = engine.facts if engine else None
    return bool(
        rank.torch.is_asleep or rank.torch.has_pluggable_allocator or (facts and facts.sleep_level)
    )


def _minima(rank: RankHistory) -> list[int]:
    """The gap's minima of the whole minutes that lie next to each other, up to the last one."""
    gaps = rank.minute_gaps_bytes
    minute = max(gaps, default=0) - 1  # the newest minute still goes on
    minima: list[int] = []
    while minute in gaps:
        minima.insert(0, gaps[minute])
        minute -= 1
    return minima
