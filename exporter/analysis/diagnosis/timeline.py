"""The time-aligned table: tokens per second, GPU utilization, memory and KV usage side by side.

Holds at most 20 rows at an even spacing, however long it goes on: when they are full, every two
become one.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from exporter.records.view import View

MAX_ROWS = 20
FIRST_SPACING_NS = 1_000_000_000

EngineKey = tuple[str, str]


class Row(Struct, frozen=True, kw_only=True):
    """One row as it is shown; None: not told. `ts_unix_s`: when it begins.

    Tokens per second are those scheduled, over all engines. `gpu_utilization_ratio`: mean over
    samples and GPUs. `memory_used_bytes`: of all GPUs, the highest. `kv_usage_ratio`: active /
    usable KV blocks, the highest of all engines.
    """

    ts_unix_s: float
    prompt_tokens_per_second: float | None
    generation_tokens_per_second: float | None
    gpu_utilization_ratio: float | None
    memory_used_bytes: int | None
    kv_usage_ratio: float | None


class Tokens(Struct, frozen=True):
    """Tokens that one engine had scheduled at a time, cumulative."""

    ts_unix_ns: int
    prompt: float
    generation: float


class Bucket(Struct, frozen=True, kw_only=True):
    """What falls into one row; `tokens` by engine: as last told in it."""

    utilization_sum: float = 0.0
    utilization_count: int = 0
    used_bytes: int | None = None
    usage_ratio: float | None = None
    tokens: dict[EngineKey, Tokens] = {}


class Timeline(Struct, frozen=True, kw_only=True):
    """Buckets by number; `first_tokens`: where each engine's tokens stood when first told."""

    first_unix_ns: int = 0
    spacing_ns: int = FIRST_SPACING_NS
    buckets: dict[int, Bucket] = {}
    first_tokens: dict[EngineKey, Tokens] = {}


def advanced(before: Timeline, view: View) -> Timeline:
    """The table's contents after one more View."""
    timeline = before if before.buckets else replace(before, first_unix_ns=view.ts_unix_ns)
    since_ns = view.ts_unix_ns - timeline.first_unix_ns
    while since_ns // timeline.spacing_ns >= MAX_ROWS:
        timeline = _halved(timeline)
    number = max(0, since_ns) // timeline.spacing_ns
    bucket = _bucket(view)
    known = timeline.buckets.get(number)
    return replace(
        timeline,
        buckets={**timeline.buckets, number: _joined(known, bucket) if known else bucket},
        first_tokens={**bucket.tokens, **timeline.first_tokens},
    )


def rows(timeline: Timeline) -> Iterator[Row]:
    """The table, oldest row first; a row without any View is left out."""
    tokens: Mapping[EngineKey, Tokens] = timeline.first_tokens
    for number, bucket in sorted(timeline.buckets.items()):
        count = bucket.utilization_count
        prompt, generation = _rates(tokens, bucket.tokens)
        tokens = {**tokens, **bucket.tokens}
        yield Row(
            ts_unix_s=(timeline.first_unix_ns + number * timeline.spacing_ns) / 1e9,
            prompt_tokens_per_second=prompt,
            generation_tokens_per_second=generation,
            gpu_utilization_ratio=bucket.utilization_sum / count if count else None,
            memory_used_bytes=bucket.used_bytes,
            kv_usage_ratio=bucket.usage_ratio,
        )


def _bucket(view: View) -> Bucket:
    samples = [device.sample for device in view.devices if device.sample]
    utilizations = [
        sample.gpu_utilization_ratio
        for sample in samples
        if sample.gpu_utilization_ratio is not None
    ]
    used = [sample.memory.used_bytes for sample in samples if sample.memory]
    usages = [engine.usage_ratio for engine in view.engines if engine.usage_ratio is not None]
    tokens = {}
    for engine in view.engines:
        prompt, generation = engine.counters.prompt_tokens, engine.counters.generation_tokens
        if engine.kv is not None and prompt is not None and generation is not None:
            told = Tokens(engine.kv.ts_unix_ns, prompt, generation)
            tokens[engine.replica, engine.engine] = told
    return Bucket(
        utilization_sum=sum(utilizations),
        utilization_count=len(utilizations),
        used_bytes=sum(used) if used else None,
        usage_ratio=max(usages, default=None),
        tokens=tokens,
    )


def _joined(first: Bucket, second: Bucket) -> Bucket:
    used = [each.used_bytes for each in (first, second) if each.used_bytes is not None]
    usages = [each.usage_ratio for each in (first, second) if each.usage_ratio is not None]
    return Bucket(
        utilization_sum=first.utilization_sum + second.utilization_sum,
        utilization_count=first.utilization_count + second.utilization_count,
        used_bytes=max(used, default=None),
        usage_ratio=max(usages, default=None),
        tokens={**first.tokens, **second.tokens},
    )


def _halved(timeline: Timeline) -> Timeline:
    buckets: dict[int, Bucket] = {}
    for number, bucket in sorted(timeline.buckets.items()):
        earlier = buckets.get(number // 2)
        buckets[number // 2] = _joined(earlier, bucket) if earlier else bucket
    return replace(timeline, spacing_ns=2 * timeline.spacing_ns, buckets=buckets)


def _rates(
    before: Mapping[EngineKey, Tokens], after: Mapping[EngineKey, Tokens]
) -> tuple[float | None, float | None]:
    """Prompt and generated tokens per second between records, so no clock of ours distorts them."""
    prompt = generation = 0.0
    is_known = False
    for key, now in after.items():
        span_s = (now.ts_unix_ns - before[key].ts_unix_ns) / 1e9
        if span_s > 0:
            is_known = True
            prompt += (now.prompt - before[key].prompt) / span_s
            generation += (now.generation - before[key].generation) / span_s
    return (prompt, generation) if is_known else (None, None)
