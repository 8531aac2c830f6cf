"""Row "Now": how near the selected engines are to a full KV pool."""

from dashboards.absence import NO_ENGINE, NO_LOOKUPS, NOT_FILLING
from dashboards.figures import stat
from dashboards.panels import ANY_IS_BAD, FULLNESS
from dashboards.queries import ENGINE, WINDOW, target

NOW = [
    stat(
        "Highest KV usage",
        "Active / usable KV blocks of the fullest selected engine, the highest of the last 60 s. "
        "Below 0.9 new requests find room; at 0.98 and above they wait or push others out.",
        target(f"max(max_over_time(vllm_kv_cache_usage_window_max_ratio{{{ENGINE}}}[{WINDOW}]))"),
        unit="percentunit",
        no_value=NO_ENGINE,
        steps=FULLNESS,
    ),
    stat(
        "Least headroom",
        "Tokens that still fit into the cached and free KV blocks of the fullest selected engine.",
        target(f"min(min_over_time(vllm_kv_cache_headroom_tokens{{{ENGINE}}}[{WINDOW}]))"),
        unit="short",
        no_value=NO_ENGINE,
    ),
    stat(
        "Full in",
        "Time until the first pool is full, at the present trend. Absent while none is filling.",
        target(f"min(min_over_time(vllm_kv_cache_exhaustion_seconds{{{ENGINE}}}[{WINDOW}]))"),
        unit="s",
        no_value=NOT_FILLING,
    ),
    stat(
        "Requests waiting",
        "Requests that wait for KV blocks or for their turn. A few for moments are normal; many "
        "for long beside a full pool mean that the pool is too small for this load.",
        target(
            f'sum(max_over_time(vllm_engine_requests{{{ENGINE},state="waiting"}}[{WINDOW}]))',
        ),
        unit="short",
        no_value=NO_ENGINE,
    ),
    stat(
        "Preemptions in this time range",
        "Requests that lost their KV blocks to others and had to be computed again. Normal is 0.",
        target(
            f"round(sum(increase(vllm_engine_preemptions_total{{{ENGINE}}}[$__range])))",
            is_instant=True,
        ),
        unit="short",
        no_value=NO_ENGINE,
        steps=ANY_IS_BAD,
        is_traced=False,
    ),
    stat(
        "Prefix-cache hit ratio",
        "Tokens found / looked up in the prefix cache in the last 60 s, over all selected engines. "
        "What is good depends on the prompts: shared prefixes give a high one, others cannot.",
        target(
            f"sum(rate(vllm_kv_cache_hit_tokens_total{{{ENGINE}}}[1m]))"
            f" / (sum(rate(vllm_kv_cache_query_tokens_total{{{ENGINE}}}[1m])) > 0)"
        ),
        unit="percentunit",
        no_value=NO_LOOKUPS,
    ),
]
