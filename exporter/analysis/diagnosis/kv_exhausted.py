"""Cause: the KV pool is full, and requests lose their blocks (preemption) or wait for some."""

from collections.abc import Iterator

from exporter.analysis.diagnosis.finding import (
    Finding,
    Judgement,
    NotJudged,
    Verdict,
    engine_name,
    gigabytes,
    moment,
)
from exporter.analysis.diagnosis.history import EngineHistory, History

FULL_USAGE_RATIO = 0.95
"""A measured engine preempted 121 requests at 0.92 to 1.00 of its pool and none below."""

_ADVICE = (
    "Give the engine more KV blocks: raise --gpu-memory-utilization{free}, drop"
    " --num-gpu-blocks-override, use --kv-cache-dtype fp8 or more GPUs (--tensor-parallel-size);"
    " or let it take fewer tokens at once: lower --max-num-seqs or --max-model-len."
)


def judged(history: History) -> Iterator[Judgement]:
    """One judgement an engine."""
    for engine in history.engines.values():
        yield _judged(engine, history)


def _judged(engine: EngineHistory, history: History) -> Judgement:
    name = engine_name(engine.replica, engine.engine)
    usage, preemptions = engine.usage_peak, engine.preemptions
    if usage is None:
        return NotJudged("kv_exhausted", f"{name}: no KV usage was told")
    evidence = [f"{name}: KV usage up to {usage.value:.3f} at {moment(usage.ts_unix_ns)}"]
    if engine.kv and engine.kv.blocks:
        evidence.append(f"{name}: {engine.kv.blocks.usable} usable KV blocks")
    if preemptions is None:
        evidence.append(f"{name}: preemptions are not told")
    else:
        evidence.append(f"{name}: {preemptions.growth:.0f} preemptions in this time")
    waiting = engine.waiting_peak
    if waiting and waiting.value:
        evidence.append(
            f"{name}: up to {waiting.value:.0f} requests waiting at {moment(waiting.ts_unix_ns)}"
        )
    verdict = _verdict(usage.value, preemptions.growth if preemptions else 0)
    if verdict == "ok":
        return Finding(cause="kv_exhausted", verdict="ok", evidence=tuple(evidence))
    free_bytes = _least_free_bytes(engine, history)
    if free_bytes is not None:
        evidence.append(f"{name}: its fullest GPU has {gigabytes(free_bytes)} free")
    free = f" ({gigabytes(free_bytes)} are free)" if free_bytes is not None else ""
    return Finding(
        cause="kv_exhausted",
        verdict=verdict,
        evidence=tuple(evidence),
        advice=_ADVICE.format(free=free),
    )


def _verdict(usage_peak: float, preemptions: float) -> Verdict:
    """vLLM preempts when a running request needs a block and none is left."""
    if usage_peak < FULL_USAGE_RATIO:
        return "watch" if preemptions else "ok"
    return "act" if preemptions else "watch"


def _least_free_bytes(engine: EngineHistory, history: History) -> int | None:
    """Free bytes of the GPU of its workers that has least; None when no GPU is known."""
    free = []
    for rank in history.ranks_of(engine):
        device = history.devices.get(rank.torch.uuid or "")
        if device and device.sample and device.sample.memory:
            free.append(device.sample.memory.free_bytes)
    return min(free, default=None)
