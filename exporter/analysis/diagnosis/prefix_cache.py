"""Cause: the prefix cache finds little although prompts are asked for."""

from collections.abc import Iterator

from exporter.analysis.diagnosis.finding import Judged, Judgement, Unjudged, engine_name
from exporter.analysis.diagnosis.history import EngineHistory, History

MIN_QUERY_TOKENS = 10_000
"""Fewer are a handful of prompts: their hit ratio says nothing about the next ones."""

LOW_HIT_RATIO = 0.2
"""Measured chat loads with shared prefixes stood at 0.57 to 0.81."""

LARGE_BLOCK_TOKENS = 64
"""vLLM's usual block has 16 tokens; hybrid models were reported with 784, which prompts missed."""

CROWDED_USAGE_RATIO = 0.8
"""From here on requests leave prefixes less than a fifth of the pool."""


def judged(history: History) -> Iterator[Judgement]:
    """One judgement an engine."""
    for engine in history.engines.values():
        yield _judged(engine)


def _judged(engine: EngineHistory) -> Judgement:
    name = engine_name(engine.replica, engine.engine)
    if engine.facts and engine.facts.enable_prefix_caching is False:
        return Judged(subject=name, evidence=("prefix caching is switched off",))
    queries, hits = engine.query_tokens, engine.hit_tokens
    if queries is None or hits is None:
        return Unjudged(name, "prefix-cache counters are not told")
    if queries.growth < MIN_QUERY_TOKENS:
        return Unjudged(
            name, f"{queries.growth:.0f} tokens were asked for, {MIN_QUERY_TOKENS} are needed"
        )
    ratio = hits.growth / queries.growth
    told = (
        f"{hits.growth:.0f} of {queries.growth:.0f} tokens asked for were found:"
        f" hit ratio {ratio:.3f}"
    )
    if ratio >= LOW_HIT_RATIO:
        return Judged(subject=name, evidence=(told,))
    block_size = _block_size(engine)
    if not hits.growth and block_size is not None and block_size >= LARGE_BLOCK_TOKENS:
        return Judged(
            subject=name,
            verdict="watch",
            evidence=(told, f"a block holds {block_size} tokens, and only whole blocks hit"),
            advice=f"A shared prefix shorter than {block_size} tokens never hits: lower"
            " --block-size where the model allows it, or share longer prefixes.",
        )
    if engine.preemptions and engine.preemptions.growth:
        return Judged(
            subject=name,
            evidence=(told, "low, but prefixes find no room where running requests lose theirs"),
        )
    usage, evictions = engine.usage_peak, engine.evictions
    if usage and usage.value >= CROWDED_USAGE_RATIO and evictions and evictions.growth:
        return Judged(
            subject=name,
            verdict="watch",
            evidence=(
                told,
                f"running requests took up to {usage.value:.3f} of the pool",
                f"{evictions.growth:.0f} cached blocks were evicted in this time",
            ),
            advice="If prompts share prefixes, these are evicted before they are asked for again:"
            " give the pool more blocks (--gpu-memory-utilization, --kv-cache-dtype fp8), lower"
            " --max-num-seqs, or route requests with the same prefix to the same replica.",
        )
    return Judged(
        subject=name,
        evidence=(told, "low, but nothing seen says that prompts share whole blocks of prefix"),
    )


def _block_size(engine: EngineHistory) -> int | None:
    of_facts = engine.facts.block_size if engine.facts else None
    return (engine.kv.block_size if engine.kv else None) or of_facts
