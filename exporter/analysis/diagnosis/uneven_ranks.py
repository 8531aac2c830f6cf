"""Cause: ranks of one engine hold unlike amounts of memory, and the tightest GPU limits them all.

vLLM gives every rank as many KV blocks as the one with least room can hold. What a co-tenant took
while the engine served is that cause's, not told here.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from exporter.analysis.diagnosis.finding import (
    Judged,
    Judgement,
    Unjudged,
    engine_name,
    gigabytes,
    rank_name,
)
from exporter.analysis.diagnosis.history import (
    EngineHistory,
    History,
    RankHistory,
    whole_minutes,
)
from exporter.analysis.fragmentation import gap_grows
from exporter.analysis.rank_imbalance import Figures, promised_ranks, rank_figures
from exporter.records.ledger import RankOwner

UNEVEN_BYTES = 1_000_000_000
"""Ranks that differ by less are normal: tensor-parallel ranks were measured within 0.03 GB of each
other, and the first of some models holds some hundred MB more (sampler, logits)."""

UNEVEN_LAYERS_RATIO = 0.1
"""Of the fullest pipeline stage: below this share there is hardly a layer to move, and first and
last stage hold the embeddings besides."""

GROWTH_BYTES = 50_000_000
"""Over five minutes; between two samples a step's tensors made up to 0.03 GB of difference."""

_NAMES: dict[RankOwner, str] = {
    "weights": "weights",
    "kv_pool": "KV pool",
    "torch_reserved": "torch's reserved",
    "non_torch": "memory outside torch",
}
_LAYERS: tuple[RankOwner, ...] = ("weights", "kv_pool")

_ADVICE_GROWTH = (
    "Look for what only this rank does (a draft model, a KV connector, an encoder), take a"
    " torch.cuda memory snapshot of its process, and plan a restart: when it runs out of memory all"
    " ranks end."
)
_ADVICE_PROCESSES = (
    "Move those processes (vllm-memory-exporter processes lists them) and restart the engine: every"
    " rank gets only as many KV blocks as its tightest GPU has room for."
)
_ADVICE_LAYERS = (
    "Even the stages out with VLLM_PP_LAYER_PARTITION, fewer layers where embeddings or more layers"
    " weigh: the fullest stage decides how many KV blocks all of them get."
)
_ADVICE_OTHER = (
    "See what only this rank has loaded (a draft model, a KV connector, an encoder, a profiler):"
    " the tightest rank decides how many KV blocks all of them get."
)


def judged(history: History) -> Iterator[Judgement]:
    """Judgements on each engine of several ranks."""
    for engine in history.engines.values():
        ranks = history.ranks_of(engine)
        count = promised_ranks(engine.facts)
        if max(count, len(ranks)) > 1:
            yield from _of_engine(engine, ranks, count, history)


def _of_engine(
    engine: EngineHistory, ranks: Sequence[RankHistory], count: int, history: History
) -> Iterator[Judgement]:
    name = engine_name(engine.replica, engine.engine)
    newest_unix_ns = max((rank.last_unix_ns for rank in ranks), default=0)
    now = [rank for rank in ranks if rank.last_unix_ns == newest_unix_ns]
    if len(now) < max(2, count):
        yield Unjudged(name, "not all of its ranks tell of their allocators")
        return
    figures = {rank.rank: _figures(rank, engine, history) for rank in now}
    wrong = [
        *_growing(now),
        *_beside_others(now, figures, history),
        *_uneven_stages(name, now, figures),
        *_unlike(now, figures),
    ]
    spreads = {owner: _spread(figures, owner) for owner in _NAMES}
    differences = [
        f"{_NAMES[owner]} {gigabytes(spread)}"
        for owner, spread in spreads.items()
        if spread is not None
    ]
    yield from wrong
    if not wrong and not differences:
        yield Unjudged(name, "its ranks tell nothing that can be compared")
    elif not wrong:
        told = f"its {len(now)} ranks differ at most by: {', '.join(differences)}"
        yield Judged(subject=name, evidence=(told,))


def _figures(rank: RankHistory, engine: EngineHistory, history: History) -> Figures:
    device = history.devices.get(rank.torch.uuid or "")
    return rank_figures(
        rank.torch, rank.parts_bytes, engine.facts, device.ledger if device else None
    )


def _growing(ranks: Sequence[RankHistory]) -> Iterator[Judged]:
    """Ranks whose tensors grow while those of others do not; a growing gap is the allocator's."""
    minima = {rank.rank: whole_minutes(rank.minute_allocated_bytes) for rank in ranks}
    growing = [rank for rank in ranks if _grows(minima[rank.rank])]
    if len(growing) == len(ranks):
        return
    for rank in growing:
        first, last = (gigabytes(minima[rank.rank][minute]) for minute in (-6, -1))
        yield Judged(
            subject=_name(rank),
            verdict="act",
            evidence=(
                f"each minute's minimum of its tensors rose from {first} to {last} in five minutes",
                f"of its engine's {len(ranks) - 1} other ranks {len(growing) - 1} grow like this",
            ),
            advice=_ADVICE_GROWTH,
        )


def _grows(minima: Sequence[int]) -> bool:
    return bool(gap_grows(minima)) and minima[-1] - minima[-6] >= GROWTH_BYTES


def _beside_others(
    ranks: Sequence[RankHistory], figures: Mapping[int, Figures], history: History
) -> Iterator[Judged]:
    """Ranks on GPUs where processes of no engine hold more than beside the other ranks."""
    told = {rank.rank: figures[rank.rank].get("other_processes") for rank in ranks}
    held = {number: count for number, count in told.items() if count is not None}
    if len(held) < len(ranks):
        return
    told_as_conflict = {each.uuid for each in history.conflicts if each.ended_unix_ns is None}
    least_bytes = min(held.values())
    least = f"beside other ranks as little as {gigabytes(least_bytes)}"
    for rank in ranks:
        own_bytes = held[rank.rank]
        if own_bytes - least_bytes < UNEVEN_BYTES or rank.torch.uuid in told_as_conflict:
            continue
        yield Judged(
            subject=_name(rank),
            verdict="watch",
            evidence=(
                f"processes of no engine hold {gigabytes(own_bytes)} of {_gpu(rank)}; {least}",
            ),
            advice=_ADVICE_PROCESSES,
        )


def _uneven_stages(
    name: str, ranks: Sequence[RankHistory], figures: Mapping[int, Figures]
) -> Iterator[Judged]:
    """Pipeline stages that hold unlike shares of the model's layers."""
    stages = _by_stage(ranks)
    layers = {stage: _layer_bytes(of, figures) for stage, of in stages.items()}
    known = [count for count in layers.values() if count is not None]
    if len(stages) < 2 or len(known) < len(stages):
        return
    difference_bytes = max(known) - min(known)
    if difference_bytes < max(UNEVEN_BYTES, UNEVEN_LAYERS_RATIO * max(known)):
        return
    evidence = []
    for stage, of in stages.items():
        parts = [
            f"{_NAMES[owner]} {gigabytes(max(figures[rank.rank][owner] for rank in of))}"
            for owner in _LAYERS
        ]
        evidence.append(f"pipeline stage {stage} ({_numbers(of)}): {', '.join(parts)}")
    yield Judged(subject=name, verdict="watch", evidence=tuple(evidence), advice=_ADVICE_LAYERS)


def _layer_bytes(ranks: Sequence[RankHistory], figures: Mapping[int, Figures]) -> int | None:
    """What the fullest of the ranks holds of layers; None when one does not tell."""
    if any(owner not in figures[rank.rank] for rank in ranks for owner in _LAYERS):
        return None
    return max(sum(figures[rank.rank][owner] for owner in _LAYERS) for rank in ranks)


def _unlike(ranks: Sequence[RankHistory], figures: Mapping[int, Figures]) -> Iterator[Judged]:
    """Ranks of one stage that should be alike and are not: the fullest against the emptiest."""
    for of in _by_stage(ranks).values():
        own = {rank.rank: figures[rank.rank] for rank in of}
        uneven = [owner for owner in _NAMES if (_spread(own, owner) or 0) >= UNEVEN_BYTES]
        if not uneven:
            continue
        fullest = max(of, key=lambda rank: own[rank.rank][uneven[0]])
        emptiest = min(of, key=lambda rank: own[rank.rank][uneven[0]])
        yield Judged(
            subject=_name(fullest),
            verdict="watch",
            evidence=tuple(
                f"{_NAMES[owner]} {gigabytes(own[fullest.rank][owner])}; of rank {emptiest.rank}"
                f" {gigabytes(own[emptiest.rank][owner])}"
                for owner in uneven
            ),
            advice=_ADVICE_OTHER,
        )


def _by_stage(ranks: Sequence[RankHistory]) -> dict[int, list[RankHistory]]:
    stages: defaultdict[int, list[RankHistory]] = defaultdict(list)
    for rank in ranks:
        stages[rank.torch.pp_rank or 0].append(rank)
    return dict(sorted(stages.items()))


def _spread(figures: Mapping[int, Figures], owner: RankOwner) -> int | None:
    """Largest − smallest; None unless each rank tells it."""
    told = [of[owner] for of in figures.values() if owner in of]
    return max(told) - min(told) if len(told) == len(figures) else None


def _name(rank: RankHistory) -> str:
    return rank_name(rank.replica, rank.engine, rank.rank)


def _numbers(ranks: Sequence[RankHistory]) -> str:
    return "rank " + ", ".join(str(rank.rank) for rank in ranks)


def _gpu(rank: RankHistory) -> str:
    return rank.torch.uuid or "" if rank.device is None else f"cuda:{rank.device}"
