"""Families about vLLM engines as a whole: facts, requests, tokens, and the plugin in them."""

from collections.abc import Iterator

from exporter.records.view import EngineView, View
from exporter.views.metrics.family import LabelValues, Subject
from exporter.views.metrics.scope import Scope


def _engines(view: View) -> Iterator[tuple[LabelValues, EngineView]]:
    for engine in view.engines:
        yield (engine.replica, engine.model_name, engine.engine), engine


ENGINES = Scope(("replica", "model_name", "engine"), _engines)
FACTS = ENGINES.part(lambda engine: engine.facts)
KV_RECORDS = ENGINES.part(lambda engine: engine.kv)
COUNTERS = ENGINES.part(lambda engine: engine.counters)
PLUGINS = FACTS.part(lambda facts: facts if facts.plugin_version or facts.status else None)

ENGINE = Subject(
    "vLLM engine",
    (
        FACTS.info(
            "vllm_engine_info",
            "Facts of the engine as labels, value 1; a fact that is not told is empty. Source: "
            "trace, engine record, else vLLM's /metrics.",
            {
                "block_size": lambda facts: facts.block_size,
                "num_gpu_blocks": lambda facts: facts.num_gpu_blocks,
                "max_model_len": lambda facts: facts.max_model_len,
                "max_num_seqs": lambda facts: facts.max_num_seqs,
                "gpu_memory_utilization": lambda facts: facts.gpu_memory_utilization,
                "cache_dtype": lambda facts: facts.cache_dtype,
                "enable_prefix_caching": lambda facts: facts.enable_prefix_caching,
                "tensor_parallel_size": lambda facts: facts.tensor_parallel_size,
                "pipeline_parallel_size": lambda facts: facts.pipeline_parallel_size,
                "data_parallel_size": lambda facts: facts.data_parallel_size,
                "kv_connector": lambda facts: facts.kv_connector,
                "sleep_level": lambda facts: facts.sleep_level,
                "speculative_tokens": lambda facts: facts.speculative_tokens,
            },
        ),
        ENGINES.gauge(
            "vllm_engine_up",
            "1 while the engine tells of itself, 0 when an engine once seen is silent. Source: "
            "age of its trace, of vLLM's /metrics and of its log.",
            lambda engine: engine.is_up,
        ),
        COUNTERS.counter(
            "vllm_engine_restarts_total",
            "Restarts of the engine that the exporter saw. Source: another process in its trace, "
            "or a count that went back.",
            lambda counters: counters.restarts,
        ),
        KV_RECORDS.gauges(
            "vllm_engine_requests",
            "Requests in the scheduler: running, and waiting for blocks or their turn. Source: "
            "trace, kv record, else vLLM's /metrics, else its log.",
            "state",
            lambda kv: {"running": kv.running, "waiting": kv.waiting},
        ),
        COUNTERS.counter(
            "vllm_scheduled_prompt_tokens_total",
            "Prompt tokens that the scheduler gave to the model. Source: trace, kv record.",
            lambda counters: counters.prompt_tokens,
        ),
        COUNTERS.counter(
            "vllm_scheduled_generation_tokens_total",
            "Generated tokens that the scheduler gave to the model. Source: trace, kv record.",
            lambda counters: counters.generation_tokens,
        ),
        COUNTERS.counter(
            "vllm_engine_preemptions_total",
            "Requests that lost their KV blocks to others. Source: trace, kv record, else vLLM's "
            "/metrics.",
            lambda counters: counters.preemptions,
        ),
    ),
)

PLUGIN = Subject(
    "Plugin in the engine",
    (
        PLUGINS.info(
            "vllm_plugin_info",
            "The plugin in the engine, value 1; status is active, degraded or unsupported, reason "
            "says why. Source: trace, engine record.",
            {
                "vllm_version": lambda facts: facts.vllm_version,
                "plugin_version": lambda facts: facts.plugin_version,
                "status": lambda facts: facts.status,
                "reason": lambda facts: facts.reason,
            },
        ),
        COUNTERS.counter(
            "vllm_plugin_errors_total",
            "Errors that the plugin caught in itself. Source: trace, engine record.",
            lambda counters: counters.plugin_errors,
        ),
        COUNTERS.counter(
            "vllm_plugin_dropped_records_total",
            "Trace records that the plugin could not write. Source: trace, engine record.",
            lambda counters: counters.plugin_dropped_records,
        ),
        COUNTERS.counter(
            "vllm_plugin_seconds_total",
            "Time that the plugin took inside the engine. Source: trace, engine record.",
            lambda counters: counters.plugin_seconds,
        ),
    ),
)
