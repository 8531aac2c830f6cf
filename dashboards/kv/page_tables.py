"""Row "Page tables": where the KV blocks of requests lie, and what that does and does not mean."""

from dashboards.absence import NO_TABLES
from dashboards.graphs import timeseries
from dashboards.panels import text
from dashboards.queries import BY_ENGINE, ENGINE, ENGINE_LEGEND, gauge, present, target

PAGE_TABLES = [
    text(
        "**What contiguity means.** A page (KV block of a request) is contiguous when its block id "
        "follows its predecessor's, or when it is the first of its table. Contiguity falls for "
        "good as a pool is used, and a large pool turns *descending* after its first wrap; only a "
        "restart brings it back. **It is normal on a busy server and does not slow decoding**: "
        "attention looks each block up anyway. **It costs KV transfers**: with a KV connector "
        "(offloading, disaggregated prefill) each *extent* is a transfer of its own. Without one, "
        "nothing here needs a remedy.",
        title="How to read these panels",
    ),
    timeseries(
        "Contiguity",
        "Contiguous pages / pages. 1 after a restart, 0.1 to 0.9 on a busy server, both healthy. "
        "It does not slow decoding. Care only if a KV connector moves these blocks.",
        target(
            gauge("vllm_page_table_contiguity_ratio", ENGINE, BY_ENGINE, over="last"), ENGINE_LEGEND
        ),
        unit="percentunit",
        no_value=NO_TABLES,
        width=8,
        extent=(0, 1),
    ),
    timeseries(
        "Pages, contiguous and descending",
        "The figures behind the ratio. Descending pages follow their predecessor − 1: the mark of "
        "a pool that has wrapped once. It is not a fault.",
        target(
            gauge("vllm_page_table_pages", ENGINE, BY_ENGINE, over="last"), f"{ENGINE_LEGEND} pages"
        ),
        target(
            gauge("vllm_page_table_contiguous_pages", ENGINE, BY_ENGINE, over="last"),
            f"{ENGINE_LEGEND} contiguous",
        ),
        target(
            gauge("vllm_page_table_descending_pages", ENGINE, BY_ENGINE, over="last"),
            f"{ENGINE_LEGEND} descending",
        ),
        unit="short",
        no_value=NO_TABLES,
        width=8,
    ),
    timeseries(
        "Extents and tables",
        "Extents: transfers that moving all page tables would take. As many as tables is the best "
        "there is; as many as pages the worst. It matters with a KV connector alone.",
        target(
            gauge("vllm_page_table_extents", ENGINE, BY_ENGINE, over="last"),
            f"{ENGINE_LEGEND} extents",
        ),
        target(
            gauge("vllm_page_table_tables", ENGINE, BY_ENGINE, over="last"),
            f"{ENGINE_LEGEND} tables",
        ),
        unit="short",
        no_value=NO_TABLES,
        width=8,
    ),
    timeseries(
        "Free runs",
        "Runs of adjacent ids among free blocks, and the longest one in blocks. Many short runs "
        "are normal: vLLM needs no adjacent blocks, so a request never fails for lack of a run.",
        target(
            gauge("vllm_kv_cache_free_runs", ENGINE, BY_ENGINE, over="last"),
            f"{ENGINE_LEGEND} runs",
        ),
        target(
            gauge("vllm_kv_cache_longest_free_run_blocks", ENGINE, BY_ENGINE, over="last"),
            f"{ENGINE_LEGEND} longest, blocks",
        ),
        unit="short",
        no_value=NO_TABLES,
        width=8,
    ),
    timeseries(
        "Order of the free queue",
        "Share of blocks at the head of the free queue that follow their predecessor: the "
        "contiguity that the next requests will get.",
        target(
            gauge("vllm_kv_cache_free_queue_contiguity_ratio", ENGINE, BY_ENGINE, over="last"),
            ENGINE_LEGEND,
        ),
        unit="percentunit",
        no_value=NO_TABLES,
        width=8,
        extent=(0, 1),
    ),
    timeseries(
        "Unused slots in blocks",
        "KV fragmentation: 1 − used / allocated token slots. It is what the last block of each "
        "request leaves empty; a few percent with long requests, more with short ones.",
        target(
            gauge("vllm_kv_cache_fragmentation_ratio", ENGINE, BY_ENGINE, over="last"),
            ENGINE_LEGEND,
        ),
        unit="percentunit",
        no_value=NO_TABLES,
        width=8,
        extent=(0, 1),
    ),
    timeseries(
        "Token slots",
        "Slots in the requests' tables: allocated, and those that hold a token.",
        target(
            present("vllm_kv_cache_slots", ENGINE, f"{BY_ENGINE}, state"),
            f"{ENGINE_LEGEND} {{{{state}}}}",
        ),
        unit="short",
        no_value=NO_TABLES,
    ),
    timeseries(
        "Shared blocks",
        "Active KV blocks that more than one request refers to: what the prefix cache saves right "
        "now. 0 is normal where prompts differ.",
        target(gauge("vllm_kv_cache_shared_blocks", ENGINE, BY_ENGINE, over="last"), ENGINE_LEGEND),
        unit="short",
        no_value=NO_TABLES,
    ),
]
