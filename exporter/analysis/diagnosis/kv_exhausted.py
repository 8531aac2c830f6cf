"""Cause: the KV pool is full, and requests lose their blocks (preemption) or wait for some."""

from collections.abc import Iterator

from exporter.analysis.diagnosis.finding import (
    Judged,
    Judgement,
    Unjudged,
    Verdict,
    engine_name,
    gigabytes,
    moment,
)
from exporter.analysis.diagnosis.history import EngineHistory, History

FULL_USAGE_RATIO = 0.95
"""A measured engine preempted 121 requests at 0.92 to 1.00 of its pool and none below."""

_ADVICE = (
    "Give the engine more KV blocks: raise --gpu-memory-utilization, drop"
    " --num-gpu-blocks-override if it is set, use --kv-cache-dtype fp8 or more GPUs"
    " (--tensor-parallel-size); or let it take fewer tokens at once: lower --max-num-seqs or"
    " --max-model-len."
)


def judged(history: History) -> Iterator[Judgement]:
    """One judgement an engine."""
    for engine in history.engines.values():
        yield _judged(engine, history)


def _judged(engine: EngineHistory, history: History) -> Judgement:
    name = engine_name(engine.replica, engine.engine)
    usage, preemptions, waiting = engine.usage_peak, engine.preemptions, engine.waiting_peak
    if usage is None:
        return Unjudged(name, "no KV usage was told")
    blocks = engine.kv.blocks if engine.kv else None
    pool = f" of {blocks.usable} usable blocks" if blocks else ""
    evidence = [f"KV usage up to {usage.value:.3f}{pool} at {moment(usage.ts_unix_ns)}"]
    if preemptions is None:
        evidence.append("preemptions are not told")
    else:
        evidence.append(f"{preemptions.growth:.0f} preemptions in this time")
    if waiting and waiting.value:
        evidence.append(
            f"up to {waiting.value:.0f} requests waiting at {moment(waiting.ts_unix_ns)}"
        )
    verdict = _verdict(usage.value, preemptions.growth if preemptions else 0)
    if verdict == "ok":
        return Judged(subject=name, evidence=tuple(evidence))
    if engine.exhaustion_seconds:
        evidence.append(f"at its present trend full in {engine.exhaustion_seconds:.0f} s")
    free_bytes = _least_free_bytes(engine, history) if engine.is_up else None
    if free_bytes is not None:
        evidence.append(f"its fullest GPU has {gigabytes(free_bytes)} free at the end")
    return Judged(subject=name, verdict=verdict, evidence=tuple(evidence), advice=_ADVICE)


def _verdict(usage_peak: float, preemptions: float) -> Verdict:
    """vLLM preempts when a running request needs a block and none is left."""
    if usage_peak < FULL_USAGE_RATIO:
        return "watch" if preemptions else "ok"
    return "act" if preemptions else "watch"


def _least_free_bytes(engine: EngineHistory, history: History) -> int | None:
    """Free bytes at the end of the GPU of its workers that has least; None: no GPU is known.

    Tells nothing once the engine has ended and given its memory back.
    """
    free = []
    for rank in history.ranks_of(engine):
        device = history.devices.get(rank.torch.uuid or "")
        if device and device.sample and device.sample.memory:
            free.append(device.sample.memory.free_bytes)
    return min(free, default=None)
