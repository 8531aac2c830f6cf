"""Row of vLLM's own metrics under the same crosshair: what clients feel while the pool fills."""

from dashboards.absence import NO_VLLM
from dashboards.graphs import timeseries
from dashboards.panels import FULLNESS
from dashboards.queries import (
    BY_SERVER,
    SERVER_LEGEND,
    VLLM_SERVER,
    either,
    gauge,
    increase,
    quantile,
    target,
)

QUANTILES = (0.5, 0.95, 0.99)


def _waiting() -> str:
    """By reason where vLLM tells it; else all under the reason "any"."""
    every = gauge("vllm:num_requests_waiting", VLLM_SERVER, BY_SERVER)
    return either(
        gauge("vllm:num_requests_waiting_by_reason", VLLM_SERVER, f"{BY_SERVER}, reason"),
        f'label_replace({every}, "reason", "any", "", "")',
        BY_SERVER,
    )


VLLM_OWN = [
    timeseries(
        "Time to first token",
        "What a client waits for the first token: waiting, then the prompt. If it rises while KV "
        "usage is at 1, requests wait for blocks. Judge it against your own objective.",
        *(
            target(
                quantile(q, "vllm:time_to_first_token_seconds_bucket", VLLM_SERVER, BY_SERVER),
                f"{SERVER_LEGEND} p{round(q * 100)}",
            )
            for q in QUANTILES
        ),
        unit="s",
        no_value=NO_VLLM,
        width=8,
    ),
    timeseries(
        "Time between tokens",
        "What a client waits for each further token. It rises with the number of running requests "
        "and with each preemption. Older versions call it time per output token.",
        *(
            target(
                either(
                    quantile(q, "vllm:inter_token_latency_seconds_bucket", VLLM_SERVER, BY_SERVER),
                    quantile(
                        q, "vllm:time_per_output_token_seconds_bucket", VLLM_SERVER, BY_SERVER
                    ),
                    BY_SERVER,
                ),
                f"{SERVER_LEGEND} p{round(q * 100)}",
            )
            for q in QUANTILES
        ),
        unit="s",
        no_value=NO_VLLM,
        width=8,
    ),
    timeseries(
        "Waiting, by reason",
        "capacity: no KV blocks or no free place in the batch. deferred: waiting for something "
        "else, for example a KV transfer. Versions that tell no reason show any.",
        target(_waiting(), f"{SERVER_LEGEND} {{{{reason}}}}"),
        unit="short",
        no_value=NO_VLLM,
        width=8,
    ),
    timeseries(
        "Preemptions as vLLM counts them",
        "The same as above, told by vLLM. If the two differ, they are different engines: see how "
        "to join them in docs/dashboards.md.",
        target(increase("vllm:num_preemptions_total", VLLM_SERVER, BY_SERVER), SERVER_LEGEND),
        unit="short",
        no_value=NO_VLLM,
        is_stepped=True,
    ),
    timeseries(
        "KV usage as vLLM tells it",
        "One value a scrape; peaks between two scrapes are only in the panel above.",
        target(
            either(
                gauge("vllm:kv_cache_usage_perc", VLLM_SERVER, BY_SERVER),
                gauge("vllm:gpu_cache_usage_perc", VLLM_SERVER, BY_SERVER),
                BY_SERVER,
            ),
            SERVER_LEGEND,
        ),
        unit="percentunit",
        no_value=NO_VLLM,
        steps=FULLNESS,
        extent=(0, 1),
    ),
]
