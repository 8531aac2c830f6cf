"""Cause: scattered page tables, which cost time only where KV blocks are transferred."""

from collections.abc import Iterator

from exporter.analysis.diagnosis.finding import Judged, Judgement, Unjudged, engine_name
from exporter.analysis.diagnosis.history import EngineHistory, History

SCATTERED_RATIO = 0.5
"""Reported with a KV connector: at about half of the descriptors mergeable a transfer took 53 ms,
at a tenth 117 ms (vLLM pull request 55841)."""


def judged(history: History) -> Iterator[Judgement]:
    """One judgement an engine."""
    for engine in history.engines.values():
        yield _judged(engine)


def _judged(engine: EngineHistory) -> Judgement:
    name = engine_name(engine.replica, engine.engine)
    ratio = engine.contiguity_ratio
    if ratio is None:
        return Unjudged(name, "no page tables were told")
    told = f"{ratio:.3f} of KV pages follow their predecessor"
    connector = engine.facts.kv_connector if engine.facts else None
    if not connector:
        note = "normal on a busy server: decoding is as fast, and no KV transfer is known"
        return Judged(subject=name, evidence=(told, note))
    if ratio >= SCATTERED_RATIO:
        return Judged(subject=name, evidence=(told, f"KV blocks are transferred by {connector}"))
    return Judged(
        subject=name,
        verdict="watch",
        evidence=(told, f"KV blocks are transferred by {connector}, run by run"),
        advice="Each transfer needs more and smaller copies than at start. Only a restart restores"
        " the order; a larger --block-size makes runs longer.",
    )
