"""Board "KV cache and page tables": what fills a vLLM server, and what its clients feel of it."""

from dashboards.board import Board
from dashboards.kv.now import NOW
from dashboards.kv.page_tables import PAGE_TABLES
from dashboards.kv.pool import POOL
from dashboards.kv.vllm_own import VLLM_OWN
from dashboards.kv.work import PREFIX_CACHE, WORK
from dashboards.objectives import OBJECTIVES
from dashboards.panels import row

KV_BOARD = Board(
    uid="vllm-memory-kv",
    title="vLLM memory / KV cache and page tables",
    description="What fills a vLLM server: KV blocks, their use, and what clients feel of it.",
    panels=[
        row("Now"),
        *NOW,
        row("KV pool"),
        *POOL,
        row("Objectives: vLLM's latency histograms"),
        *OBJECTIVES,
        row("What clients feel: vLLM's own metrics"),
        *VLLM_OWN,
        row("Work, GPU and memory on one clock"),
        *WORK,
        row("Prefix cache"),
        *PREFIX_CACHE,
        row("Page tables: normal when scattered, see the note"),
        *PAGE_TABLES,
    ],
    vllm_choices=("job", "instance"),
)
