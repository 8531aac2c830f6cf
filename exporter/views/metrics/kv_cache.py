"""Families about an engine's KV cache: page tables, the block pool, slots and the prefix cache."""

from exporter.views.metrics.engine import COUNTERS, ENGINES, KV_RECORDS
from exporter.views.metrics.family import Subject

PAGE_TABLES = KV_RECORDS.part(lambda kv: kv.page_table)
BLOCKS = KV_RECORDS.part(lambda kv: kv.blocks)
FREE_RUNS = KV_RECORDS.part(lambda kv: kv.free_runs)
SLOTS = KV_RECORDS.part(lambda kv: kv.slots)
USAGE_WINDOWS = ENGINES.part(lambda engine: engine.usage_window)

PAGE_TABLE = Subject(
    "Page tables",
    (
        PAGE_TABLES.gauge(
            "vllm_page_table_pages",
            "Pages (KV blocks) in the block tables of all requests; a shared one counts in each. "
            "Source: trace, page_table.",
            lambda table: table.num_pages,
        ),
        PAGE_TABLES.gauge(
            "vllm_page_table_contiguous_pages",
            "Pages whose block id is their predecessor's + 1, or that are the first of their "
            "table. Source: trace, page_table.",
            lambda table: table.contiguous_pages,
        ),
        PAGE_TABLES.gauge(
            "vllm_page_table_descending_pages",
            "Pages whose block id is their predecessor's − 1. Source: trace, page_table.",
            lambda table: table.descending_pages,
        ),
        ENGINES.gauge(
            "vllm_page_table_extents",
            "Transfers that moving all page tables needs: pages − contiguous pages + tables. "
            "Source: trace, page_table.",
            lambda engine: engine.extents,
        ),
        PAGE_TABLES.gauge(
            "vllm_page_table_tables",
            "Block tables with at least one page. Source: trace, page_table.",
            lambda table: table.tables,
        ),
        ENGINES.gauge(
            "vllm_page_table_contiguity_ratio",
            "Contiguous pages / pages; absent without pages. A cost of KV transfers, not of "
            "decoding. Source: trace, page_table.",
            lambda engine: engine.contiguity_ratio,
        ),
    ),
)

KV_CACHE = Subject(
    "KV cache",
    (
        BLOCKS.gauges(
            "vllm_kv_cache_blocks",
            "KV blocks by state: active in a request, cached (evictable prefix), free (empty), "
            "null. Source: trace, blocks, else vLLM's /metrics; cached and free are absent when "
            "not told apart.",
            "state",
            lambda blocks: {
                "active": blocks.active,
                "cached": blocks.cached,
                "free": blocks.free,
                "null": blocks.null,
            },
        ),
        BLOCKS.gauge(
            "vllm_kv_cache_shared_blocks",
            "Active KV blocks that more than one request refers to. Source: trace, blocks.",
            lambda blocks: blocks.shared,
        ),
        ENGINES.gauge(
            "vllm_kv_cache_usage_ratio",
            "Active / usable KV blocks; usable is all but the null block. Source: trace, blocks, "
            "else vLLM's /metrics, else its log.",
            lambda engine: engine.usage_ratio,
        ),
        USAGE_WINDOWS.gauge(
            "vllm_kv_cache_usage_window_min_ratio",
            "Lowest vllm_kv_cache_usage_ratio among the samples of the last 60 s.",
            lambda window: window.min,
        ),
        USAGE_WINDOWS.gauge(
            "vllm_kv_cache_usage_window_max_ratio",
            "Highest vllm_kv_cache_usage_ratio among the samples of the last 60 s.",
            lambda window: window.max,
        ),
        USAGE_WINDOWS.gauge(
            "vllm_kv_cache_usage_window_mean_ratio",
            "Mean of vllm_kv_cache_usage_ratio over the samples of the last 60 s.",
            lambda window: window.mean,
        ),
        SLOTS.gauges(
            "vllm_kv_cache_slots",
            "Token slots in the requests' tables (full attention): allocated, and used, which "
            "hold a token. Source: trace, slots.",
            "state",
            lambda slots: {"allocated": slots.allocated, "used": slots.used},
        ),
        ENGINES.gauge(
            "vllm_kv_cache_fragmentation_ratio",
            "1 − used / allocated token slots. Source: trace, slots.",
            lambda engine: engine.kv_fragmentation_ratio,
        ),
        ENGINES.gauge(
            "vllm_kv_cache_headroom_tokens",
            "Tokens that fit into the cached and free KV blocks. Source: trace, blocks, else "
            "vLLM's /metrics.",
            lambda engine: engine.headroom_tokens,
        ),
        ENGINES.gauge(
            "vllm_kv_cache_exhaustion_seconds",
            "Time until no cached or free block is left, at the present trend; absent when the "
            "pool is not filling. Source: as vllm_kv_cache_usage_ratio.",
            lambda engine: engine.exhaustion_seconds,
        ),
        FREE_RUNS.gauge(
            "vllm_kv_cache_free_runs",
            "Maximal runs of adjacent block ids among the free blocks. Source: trace, free_runs.",
            lambda free_runs: free_runs.runs,
        ),
        FREE_RUNS.gauge(
            "vllm_kv_cache_longest_free_run_blocks",
            "Length of the longest such run, in KV blocks. Source: trace, free_runs.",
            lambda free_runs: free_runs.longest_run_blocks,
        ),
        ENGINES.gauge(
            "vllm_kv_cache_free_queue_contiguity_ratio",
            "Blocks at the head of the free queue that follow their predecessor + 1 / blocks "
            "walked there. Source: trace, free_runs.",
            lambda engine: engine.free_queue_contiguity_ratio,
        ),
        COUNTERS.counter(
            "vllm_kv_cache_query_tokens_total",
            "Tokens looked up in the prefix cache. Source: trace, prefix_cache, else vLLM's "
            "/metrics.",
            lambda counters: counters.query_tokens,
        ),
        COUNTERS.counter(
            "vllm_kv_cache_hit_tokens_total",
            "Tokens found in the prefix cache. Source: trace, prefix_cache, else vLLM's /metrics.",
            lambda counters: counters.hit_tokens,
        ),
        ENGINES.gauge(
            "vllm_kv_cache_hit_ratio",
            "Tokens found / looked up in the prefix cache over the last 60 s; absent without "
            "look-ups. Source: trace, prefix_cache, else vLLM's /metrics.",
            lambda engine: engine.hit_ratio,
        ),
        COUNTERS.counter(
            "vllm_kv_cache_evictions_total",
            "Cached KV blocks that lost their prefix to a new request. Source: trace, kv record.",
            lambda counters: counters.evictions,
        ),
    ),
)
