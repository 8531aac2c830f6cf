"""Rows "Models" and "Nodes": where to look next; each node leads to its GPUs."""

from collections.abc import Mapping

from dashboards.absence import NO_ENGINE, NO_RULES
from dashboards.figures import table
from dashboards.panels import FULLNESS, named
from dashboards.queries import EXPORTER, FLEET_MODEL, Json, recorded, target

_PERCENT: Json = {"unit": "percentunit", "decimals": 1}
_FULL: Json = {
    **_PERCENT,
    "thresholds": {
        "mode": "absolute",
        "steps": [{"color": color, "value": value} for value, color in FULLNESS],
    },
    "custom__cellOptions": {"type": "color-text"},
}
_TO_THE_GPUS = {
    "title": "GPUs of ${__data.fields.instance}",
    "url": "/d/vllm-memory-gpu?${datasource:queryparam}&var-job=${__data.fields.job}"
    "&var-instance=${__data.fields.instance}&${__url_time_range}",
}


def _columns(names: Mapping[str, str], where: str, by: str) -> list[Json]:
    """One query for each recorded series, which becomes a column."""
    return [
        target(
            recorded(name.partition("|")[0], where, by, name.partition("|")[2]),
            is_instant=True,
            form="table",
        )
        for name in names
    ]


def _titles(labels: tuple[str, ...], names: Mapping[str, str]) -> dict[str, str]:
    figures = {
        f"Value #{letter}": title
        for letter, title in zip("ABCDEFGHIJ", names.values(), strict=False)
    }
    return {label: label for label in labels} | figures


_OF_A_MODEL = {
    "job_model:vllm_engine:count": "engines",
    "job_model:vllm_engine_up:sum": "engines up",
    "job_model:vllm_kv_cache_usage:max": "KV usage",
    "job_model:vllm_kv_cache_headroom_tokens:sum": "headroom, tokens",
    'job_model:vllm_engine_requests:sum|state="running"': "running",
    'job_model:vllm_engine_requests:sum|state="waiting"': "waiting",
    "job_model:vllm_engine_preemptions:rate1m": "preemptions/s",
    "job_model:vllm_scheduled_generation_tokens:rate1m": "tokens/s",
    "job_model:vllm_kv_cache_hits_per_query:ratio_rate5m": "prefix hits",
}
_OF_A_NODE = {
    "instance:gpu:count": "GPUs",
    "instance:gpu_up:sum": "GPUs up",
    "instance:gpu_memory_effective_pressure:max": "effective pressure",
    "instance:gpu_memory_pressure:max": "device pressure",
    'instance:vllm_engine_requests:sum|state="waiting"': "waiting",
    "instance:vllm_engine_preemptions:rate1m": "preemptions/s",
    "instance:vllm_kv_cache_headroom_tokens:sum": "headroom, tokens",
    "instance:vllm_torch_oom_margin_bytes:min": "memory margin",
    "instance:gpu_utilization:avg": "GPU busy",
}

MODELS = [
    table(
        "Models",
        "All engines of a model together; KV usage is that of its fullest engine within 60 s. "
        "Waiting requests beside low usage mean that load is spread unevenly.",
        *_columns(_OF_A_MODEL, FLEET_MODEL, "job, model_name"),
        unit="short",
        no_value=NO_ENGINE,
        columns=_titles(("job", "model_name"), _OF_A_MODEL),
        sort_by="KV usage",
        overrides=[named("KV usage", **_FULL), named("prefix hits", **_PERCENT)],
    ),
]

NODES = [
    table(
        "Nodes",
        "One line an exporter. Pressure is that of the fullest GPU within 60 s, the margin that of "
        "the tightest worker. Click an instance to see its GPUs.",
        *_columns(_OF_A_NODE, EXPORTER, "job, instance"),
        unit="short",
        no_value=NO_RULES,
        columns=_titles(("instance", "job"), _OF_A_NODE),
        sort_by="effective pressure",
        height=12,
        overrides=[
            named("instance", links=[_TO_THE_GPUS]),
            named("effective pressure", **_FULL),
            named("device pressure", **_PERCENT),
            named("GPU busy", **_PERCENT),
            named("memory margin", unit="decbytes"),
        ],
    ),
]
