"""The trace: one struct per line type, as the plugin writes it and the trace source reads it.

Knows nothing of files, vLLM or metrics. A field that is None was not given: it is unknown, never 0.
Groups (`PageTable`, `Blocks`, …) check themselves, so that a contradictory group cannot exist.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

SCHEMA_VERSION = 1
BARE_INTERVAL_S = 20.0  # bare lines and log lines vanish after 3 × this = 60 s

Count = Annotated[int, Meta(ge=0, le=2**53)]
"""A whole number of bytes, blocks, tokens or events; 2**53 bytes are 9 PB."""
UnixNs = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""Nanoseconds since 1970-01-01 UTC; far beyond 2**53 today, so no `Count`."""
Seconds = Annotated[float, Meta(ge=0, le=1e12)]
Ratio = Annotated[float, Meta(ge=0, le=1)]
Text = Annotated[str, Meta(max_length=512)]

Writer = tuple[int | None, str | None, int | None]
"""Process, role and rank of whoever counts what a record tells."""

PluginStatus = Literal["active", "degraded", "unsupported"]
Origin = Literal["plugin", "metrics", "log"]
"""Who told: our plugin (or a bare line), vLLM's own /metrics, vLLM's log; the best one first."""


class PageTable(Struct, frozen=True, omit_defaults=True):
    """Block tables of all requests, counted in pages (KV blocks that are not the null block).

    A page is contiguous when its block id is its predecessor's + 1 in the same group, or when it
    is the first page of its table; descending when it is its predecessor's − 1. A page shared by
    several requests counts in each. `tables` counts tables with at least one page.
    """

    num_pages: Count
    contiguous_pages: Count
    descending_pages: Count | None = None
    tables: Count | None = None

    def __post_init__(self) -> None:
        """Refuse contradictory counts (ValueError, which msgspec reports as invalid)."""
        if self.contiguous_pages + (self.descending_pages or 0) > self.num_pages:
            raise ValueError("contiguous_pages + descending_pages exceed num_pages")
        if self.tables is not None and self.tables > self.contiguous_pages:
            raise ValueError("tables exceed contiguous_pages: the first page of each is contiguous")


class Blocks(Struct, frozen=True, omit_defaults=True):
    """The KV block pool, in blocks.

    `num_free` blocks are in vLLM's free queue: `cached` of them still hold a prefix (evictable),
    the rest are empty. Active = total − null − num_free. `shared` blocks are active in more than
    one request. `active_peak` is the highest number of active blocks since the previous record.
    """

    total: Annotated[int, Meta(ge=1, le=2**53)]
    num_free: Count
    null: Count = 1
    cached: Count | None = None
    shared: Count | None = None
    active_peak: Count | None = None

    def __post_init__(self) -> None:
        """Refuse contradictory counts (ValueError, which msgspec reports as invalid)."""
        if self.num_free > self.usable:
            raise ValueError("num_free exceeds total − null")
        if self.cached is not None and self.cached > self.num_free:
            raise ValueError("cached exceeds num_free")
        if self.shared is not None and self.shared > self.active:
            raise ValueError("shared exceeds active blocks")
        if self.active_peak is not None and not self.active <= self.active_peak <= self.usable:
            raise ValueError("active_peak lies outside [active, total − null]")

    @property
    def usable(self) -> int:
        """Blocks that can ever hold a request's tokens: all but the null block."""
        return self.total - self.null

    @property
    def active(self) -> int:
        """Blocks referenced by at least one request."""
        return self.usable - self.num_free

    @property
    def free(self) -> int | None:
        """Empty blocks: in the free queue without a cached prefix; None when not told apart."""
        return None if self.cached is None else self.num_free - self.cached


class FreeRuns(Struct, frozen=True, omit_defaults=True):
    """Order of the free blocks: sampled in slices, so up to one lap of the pool old.

    `runs` maximal runs of adjacent free ids, the longest of `longest_run_blocks`; of the
    `queue_walked` blocks at the head of the free queue, `queue_contiguous` follow their
    predecessor + 1 (the first one counts, so a fresh pool gives 1).
    """

    runs: Count | None = None
    longest_run_blocks: Count | None = None
    queue_walked: Count | None = None
    queue_contiguous: Count | None = None

    def __post_init__(self) -> None:
        """Refuse contradictory counts (ValueError, which msgspec reports as invalid)."""
        if (self.queue_contiguous or 0) > (self.queue_walked or 0):
            raise ValueError("queue_contiguous exceeds queue_walked")


class Slots(Struct, frozen=True):
    """Token slots in the tables of full-attention groups: allocated, and holding a token."""

    allocated: Count
    used: Count

    def __post_init__(self) -> None:
        """Refuse contradictory counts (ValueError, which msgspec reports as invalid)."""
        if self.used > self.allocated:
            raise ValueError("used slots exceed allocated slots")


class PrefixCache(Struct, frozen=True, omit_defaults=True):
    """Prefix-cache tokens asked for and found, cumulative since engine start.

    `query_tokens` and `hit_tokens` are the plugin's own count (a request that comes back after
    preemption counts once); the `vllm_` pair is what vLLM itself counts.
    """

    query_tokens: Count
    hit_tokens: Count
    vllm_query_tokens: Count | None = None
    vllm_hit_tokens: Count | None = None

    def __post_init__(self) -> None:
        """Refuse contradictory counts (ValueError, which msgspec reports as invalid)."""
        if self.hit_tokens > self.query_tokens:
            raise ValueError("hit_tokens exceed query_tokens")


class ScheduledTokens(Struct, frozen=True):
    """Tokens scheduled, cumulative since engine start: of prompts, and generated."""

    prompt: Count
    generation: Count


class KvGroup(Struct, frozen=True, omit_defaults=True):
    """One KV cache group of a hybrid model; `kind` is vLLM's spec name (FullAttentionSpec, …)."""

    index: Count
    kind: Text
    block_size: Count
    page_table: PageTable | None = None


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """What every line carries.

    `v`: schema version. `ts_unix_ns`: when the state was taken. `pid`: the writing process as it
    sees itself; None only in records made from bare lines. `engine`: data-parallel rank as text.
    `interval_s`: how often this record type is written; the record is too old for the ledger after
    twice that and gone after three times. `origin`: never written by the plugin.
    """

    v: Annotated[int, Meta(ge=SCHEMA_VERSION, le=SCHEMA_VERSION)]
    ts_unix_ns: UnixNs
    pid: Count | None = None
    replica: Text
    engine: Text
    interval_s: Annotated[float, Meta(gt=0, le=3600)]
    model_name: Text | None = None
    origin: Origin = "plugin"

    @property
    def writer(self) -> Writer:
        """Who counts: one process can be scheduler and worker, each with counts of its own."""
        return self.pid, None, None


class EngineRecord(Record, frozen=True, kw_only=True, omit_defaults=True, tag="engine"):
    """Facts of one engine and the health of the plugin in it; every 30 s and after rotation.

    `role`: "engine" (the scheduler; `rank` None) or "worker" (one `rank`'s allocator probe).

    `errors`, `dropped_records`, `plugin_seconds` are cumulative since engine start;
    `capabilities` maps what the plugin probed to whether it is there.
    """

    role: Text | None = None
    rank: Count | None = None
    start_unix_ns: UnixNs | None = None
    vllm_version: Text | None = None
    plugin_version: Text | None = None
    status: PluginStatus | None = None
    reason: Text | None = None
    capabilities: dict[str, bool] | None = None
    block_size: Count | None = None
    num_gpu_blocks: Count | None = None
    max_model_len: Count | None = None
    max_num_seqs: Count | None = None
    gpu_memory_utilization: Ratio | None = None
    cache_dtype: Text | None = None
    enable_prefix_caching: bool | None = None
    tensor_parallel_size: Count | None = None
    pipeline_parallel_size: Count | None = None
    data_parallel_size: Count | None = None
    kv_connector: Text | None = None
    sleep_level: Count | None = None
    speculative_tokens: Count | None = None
    errors: Count | None = None
    dropped_records: Count | None = None
    plugin_seconds: Seconds | None = None

    @property
    def writer(self) -> Writer:
        """See `Record.writer`."""
        return self.pid, self.role, self.rank


class KvRecord(Record, frozen=True, kw_only=True, omit_defaults=True, tag="kv"):
    """State of one scheduler: page tables, block pool, prefix cache and queues; every 1 s.

    `block_size` is tokens per block; `preemptions` and `evictions` are cumulative since engine
    start; `running` and `waiting` are requests now. `usage_ratio` is active / usable blocks from an
    origin that knows only this ratio and no `blocks`.
    """

    block_size: Count | None = None
    page_table: PageTable | None = None
    blocks: Blocks | None = None
    usage_ratio: Ratio | None = None
    free_runs: FreeRuns | None = None
    slots: Slots | None = None
    prefix_cache: PrefixCache | None = None
    tokens: ScheduledTokens | None = None
    preemptions: Count | None = None
    evictions: Count | None = None
    running: Count | None = None
    waiting: Count | None = None
    groups: tuple[KvGroup, ...] | None = None


class TorchRecord(Record, frozen=True, kw_only=True, omit_defaults=True, tag="torch"):
    """torch's CUDA allocator of one worker, in bytes; every 1 s and when reserved changes.

    `uuid` names the GPU as NVML does (``GPU-…``). Source: torch.cuda.memory_stats(device)
    (`allocated_bytes.all.current` and so on), mem_get_info for `device_free/total_bytes`,
    memory_snapshot for `largest_free_block_bytes` and the graph pools: `graph_pool_bytes` is their
    segments, of which `graph_pool_allocated_bytes` are given to tensors. `is_asleep` or
    `has_pluggable_allocator` mean that reserved does not tell what the process holds.
    """

    rank: Count
    tp_rank: Count | None = None
    pp_rank: Count | None = None
    uuid: Text | None = None
    allocated_bytes: Count | None = None
    allocated_peak_bytes: Count | None = None
    reserved_bytes: Count | None = None
    active_bytes: Count | None = None
    inactive_split_bytes: Count | None = None
    alloc_retries: Count | None = None
    ooms: Count | None = None
    device_free_bytes: Count | None = None
    device_total_bytes: Count | None = None
    weights_bytes: Count | None = None
    kv_pool_bytes: Count | None = None
    graph_pool_bytes: Count | None = None
    graph_pool_allocated_bytes: Count | None = None
    largest_free_block_bytes: Count | None = None
    is_asleep: bool | None = None
    has_pluggable_allocator: bool | None = None

    @property
    def writer(self) -> Writer:
        """See `Record.writer`."""
        return self.pid, None, self.rank

    def __post_init__(self) -> None:
        """Refuse contradictory counts (ValueError, which msgspec reports as invalid)."""
        if None not in (self.allocated_bytes, self.reserved_bytes) and (
            (self.allocated_bytes or 0) > (self.reserved_bytes or 0)
        ):
            raise ValueError("allocated_bytes exceed reserved_bytes")


class PageTableRecord(Record, frozen=True, kw_only=True, omit_defaults=True, tag="page_table"):
    """Detail: the worst tables by extents, each (pages, extents, descending pages); no ids."""

    tables: tuple[tuple[Count, Count, Count], ...] | None = None


TraceRecord = EngineRecord | KvRecord | TorchRecord | PageTableRecord


class TraceReading(Struct, frozen=True, kw_only=True):
    """What one pass over all trace files, or over one engine's /metrics, gave.

    `records` in the order of their lines, file by file; `lines` by outcome and `dropped_bytes` are
    cumulative since the source was made; `files` is how many are being followed. A source that
    reads no files leaves `lines` empty.
    """

    records: tuple[TraceRecord, ...]
    lines: dict[str, int]
    dropped_bytes: int
    files: int
