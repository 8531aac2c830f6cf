"""The source of one vLLM server's own /metrics, for engines without the plugin; judges no figure.

What /metrics cannot tell stays unknown: page tables, cached blocks, slots, the torch allocator. Its
prompt and generation tokens are those of requests, not those scheduled: each time a request comes
back after preemption, the scheduler gives all its tokens to the model again.
"""

from collections import Counter

from msgspec import Struct

from exporter.clock import Clock
from exporter.errors import SourceUnavailable
from exporter.records.trace import (
    SCHEMA_VERSION,
    Blocks,
    EngineRecord,
    KvRecord,
    PrefixCache,
    TraceReading,
)
from exporter.sources.engine_families import (
    EXPECTED,
    EngineFamilies,
    Exposition,
    read_exposition,
)
from exporter.sources.engine_url import EngineUrl
from exporter.sources.http_get import get

INTERVAL_S = 1.0
TIMEOUT_S = 0.9  # below the interval; the runner reads again only after an answer or this
MAX_ENGINES = 256
_FLOAT_ERROR = 1e-6  # blocks: a usage that is no share of the pool misses a whole number by more

_SLEEP_LEVELS = {"awake": 0, "weights_offloaded": 1, "discard_all": 2}


class EngineMetricsSource:
    """Asks one URL once a second; never twice at a time.

    `errors` counts by reason what was wrong in answers that were used all the same: lines
    (``malformed_line``), figures (``invalid_…``), and figures that every known version of vLLM
    tells and this one did not (``missing_…``: renamed again?).
    """

    interval_s = INTERVAL_S

    def __init__(self, url: EngineUrl, clock: Clock) -> None:
        self.name = f"engine_metrics:{url.replica}"
        self.errors: Counter[str] = Counter()
        self._url = url
        self._clock = clock

    def read(self) -> TraceReading:
        """A facts record and a scheduler record of each engine, as of now.

        Raises: SourceUnavailable: no answer, or none of vLLM.
        """
        body = get(self._url, TIMEOUT_S, self._clock)
        ts_unix_ns = self._clock.unix_ns()
        exposition = read_exposition(body)
        records: list[EngineRecord | KvRecord] = []
        for engine, families in list(exposition.engines.items())[:MAX_ENGINES]:
            asked = _Asked(self._url.replica, engine, ts_unix_ns, _pool(exposition, families))
            records += _facts(asked, families), _kv(asked, families)
            self.errors.update(f"missing_{name}" for name in EXPECTED if not families.is_told(name))
        self.errors.update(exposition.faults)
        if not records:
            raise SourceUnavailable(
                "no_vllm_metrics",
                f"{self._url.shown} answers without metrics of vLLM",
                "let --engine.url name vLLM's API server, started without --disable-log-stats",
                backs_off=False,
            )
        return TraceReading(records=tuple(records), lines={}, dropped_bytes=0, files=0)

    def close(self) -> None:
        """Nothing is held open: each read has its own connection."""


class _Asked(Struct, frozen=True):
    """Whose families these are, when they came, and how many KV blocks the engine has."""

    replica: str
    engine: str
    ts_unix_ns: int
    num_gpu_blocks: int | None


def _kv(asked: _Asked, families: EngineFamilies) -> KvRecord:
    usage_ratio = families.ratio("usage")
    blocks = _blocks(asked.num_gpu_blocks, usage_ratio)
    waiting = families.requests("waiting")
    return KvRecord(
        v=SCHEMA_VERSION,
        ts_unix_ns=asked.ts_unix_ns,
        replica=asked.replica,
        engine=asked.engine,
        interval_s=INTERVAL_S,
        model_name=families.model_name(),
        origin="metrics",
        block_size=_count(families.fact("block_size")),
        blocks=blocks,
        usage_ratio=usage_ratio if blocks is None else None,
        prefix_cache=_prefix_cache(families),
        preemptions=families.count("preemptions"),
        running=families.requests("running"),
        waiting=families.requests_by("waiting_by_reason", "reason") if waiting is None else waiting,
    )


def _facts(asked: _Asked, families: EngineFamilies) -> EngineRecord:
    return EngineRecord(
        v=SCHEMA_VERSION,
        ts_unix_ns=asked.ts_unix_ns,
        replica=asked.replica,
        engine=asked.engine,
        interval_s=INTERVAL_S,
        model_name=families.model_name(),
        origin="metrics",
        block_size=_count(families.fact("block_size")),
        num_gpu_blocks=asked.num_gpu_blocks,
        gpu_memory_utilization=_ratio(families.fact("gpu_memory_utilization")),
        cache_dtype=families.fact("cache_dtype"),
        enable_prefix_caching={"True": True, "False": False}.get(
            families.fact("enable_prefix_caching") or ""
        ),
        sleep_level=_sleep_level(families),
    )


def _pool(exposition: Exposition, families: EngineFamilies) -> int | None:
    """KV blocks of an engine; None where that is not told.

    With several engines `cache_config_info` has the sum of all in each one's series. The V0 engine
    has no null block, so that its figure is not ours.
    Source: vllm/v1/engine/core_client.py ("Sum num_gpu_blocks from all engines in DP case").
    """
    if len(exposition.engines) > 1 or families.is_told("swap_usage"):
        return None
    return _count(families.fact("num_gpu_blocks"))


def _blocks(num_gpu_blocks: int | None, usage_ratio: float | None) -> Blocks | None:
    """The pool, exactly: vLLM's usage is 1 − free / (blocks − 1), without its null block.

    None when either is unknown, and when the usage is no share of so many: then it is not this
    pool's. Source: vllm/v1/core/block_pool.py, BlockPool.get_usage.
    """
    if not num_gpu_blocks or usage_ratio is None:
        return None
    usable = num_gpu_blocks - 1
    active = round(usage_ratio * usable)
    if abs(active - usage_ratio * usable) > _FLOAT_ERROR:
        return None
    return Blocks(total=num_gpu_blocks, num_free=usable - active)


def _prefix_cache(families: EngineFamilies) -> PrefixCache | None:
    queries, hits = families.count("query_tokens"), families.count("hit_tokens")
    if queries is None or hits is None or hits > queries:
        return None
    return PrefixCache(query_tokens=queries, hit_tokens=hits)


def _sleep_level(families: EngineFamilies) -> int | None:
    """0 awake, 1 weights offloaded, 2 everything discarded."""
    states = {
        labels.get("sleep_state") for labels, value in families.series("sleep_state") if value
    }
    levels = (level for state, level in _SLEEP_LEVELS.items() if state in states)
    return max(levels, default=None)


def _count(fact: str | None) -> int | None:
    return int(fact) if fact and fact.isdecimal() and len(fact) <= 15 else None


def _ratio(fact: str | None) -> float | None:
    try:
        ratio = float(fact or "")
    except ValueError:
        return None
    return ratio if 0 <= ratio <= 1 else None
