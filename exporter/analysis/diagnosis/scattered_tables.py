"""Cause: scattered page tables, which cost time only where KV blocks are transferred."""

from collections.abc import Iterator

from exporter.analysis.diagnosis.finding import Finding, Judgement, NotJudged, engine_name
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
        return NotJudged("scattered_tables", f"{name}: no page tables were told")
    told = f"{name}: {ratio:.3f} of KV pages follow their predecessor"
    connector = engine.facts.kv_connector if engine.facts else None
    if not connector:
        note = "normal on a busy server: decoding is as fast, and no KV transfer is known"
        return Finding(cause="scattered_tables", verdict="ok", evidence=(f"{told}; {note}",))
    if ratio >= SCATTERED_RATIO:
        return Finding(
            cause="scattered_tables", verdict="ok", evidence=(f"{told}; KV goes by {connector}",)
        )
    return Finding(
        cause="scattered_tables",
        verdict="watch",
        evidence=(told, f"{name}: KV blocks are transferred by {connector}, run by run"),
        advice="Each transfer needs more and smaller copies than at start. Only a restart restores"
        " the order; a larger --block-size makes runs longer.",
    )
