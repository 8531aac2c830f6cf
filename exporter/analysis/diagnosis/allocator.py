"""Cause: torch's allocator fails, or is about to: retries, a gap that grows, a margin below 0.

A gap (reserved − allocated) alone is no finding, however large: most healthy engines hold one.
"""

from collections.abc import Iterator, Sequence

from exporter.analysis.diagnosis.finding import (
    SEVERITY,
    Judged,
    Judgement,
    Unjudged,
    Verdict,
    gigabytes,
    moment,
    rank_name,
)
from exporter.analysis.diagnosis.history import (
    Extreme,
    History,
    RankHistory,
    whole_minutes,
)
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
        peers = history.ranks_beside(rank)
        yield _judged(rank, peers, _has_sleep_mode(rank, history), _margin(rank, history))


def _judged(
    rank: RankHistory, peers: Sequence[RankHistory], has_sleep_mode: bool, margin: Extreme | None
) -> Judgement:
    """Args: peers: the other ranks of its engine."""
    name = rank_name(rank.replica, rank.engine, rank.rank)
    gap, minima = rank.gap_peak_bytes, whole_minutes(rank.minute_gaps_bytes)
    retries, ooms = rank.retries, rank.ooms
    if has_sleep_mode:  # reserved, and all that is made of it, does not tell what torch holds
        gap, margin, minima = None, None, ()
    grows = gap_grows(minima)
    if retries is None and ooms is None and margin is None and grows is None:
        return Unjudged(name, "neither retries nor margin nor six minutes of its gap were told")
    verdicts: list[Verdict] = ["ok"]
    evidence = []
    if has_sleep_mode:
        evidence.append("gap and margin are not judged: sleep mode, or an allocator of its own")
    if gap:
        evidence.append(f"reserved - allocated up to {gigabytes(gap.value)}")
    for count, what in ((retries, "allocation retries"), (ooms, "out-of-memory errors")):
        if count and (count is retries or count.last):
            evidence.append(f"{count.growth:.0f} {what} in this time, {count.first:.0f} before")
            verdicts.append("act" if count.growth else "watch" if count.first else "ok")
    if margin:
        evidence.append(f"least margin {gigabytes(margin.value)} at {moment(margin.ts_unix_ns)}")
        verdicts.append("act" if margin.value < 0 else "ok")
    if grows:
        evidence.append(
            f"the gap's minimum of each minute rose from {gigabytes(minima[-6])} to"
            f" {gigabytes(minima[-1])} in five minutes"
        )
        growing = sum(gap_grows(whole_minutes(peer.minute_gaps_bytes)) or False for peer in peers)
        if peers:
            evidence.append(f"of its engine's {len(peers)} other ranks {growing} grow like this")
        verdicts.append("act")
    verdict = min(verdicts, key=SEVERITY.__getitem__)
    advice = _ADVICE_SLEEP_MODE if has_sleep_mode else _ADVICE
    return Judged(
        subject=name,
        verdict=verdict,
        evidence=tuple(evidence),
        advice=None if verdict == "ok" else advice,
    )


def _margin(rank: RankHistory, history: History) -> Extreme | None:
    """The least margin, also of a moment that was told as a conflict and fell between two Views."""
    margins = [
        Extreme(conflict.margin_bytes, conflict.ts_unix_ns)
        for conflict in history.conflicts
        if conflict.margin_bytes is not None
        and conflict.uuid == rank.torch.uuid
        and history.overlaps(conflict)
    ]
    if rank.margin_least_bytes:
        margins.append(rank.margin_least_bytes)
    return min(margins, key=lambda margin: margin.value, default=None)


def _has_sleep_mode(rank: RankHistory, history: History) -> bool:
    engine = history.engines.get((rank.replica, rank.engine))
    facts = engine.facts if engine else None
    return bool(
        rank.torch.is_asleep or rank.torch.has_pluggable_allocator or (facts and facts.sleep_level)
    )
