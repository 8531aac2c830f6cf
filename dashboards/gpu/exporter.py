"""Row "The exporter itself": whether what the boards show can be believed."""

from dashboards.absence import NO_EXPORTER, NO_PLUGIN, NO_SOURCE
from dashboards.figures import table
from dashboards.graphs import timeseries
from dashboards.queries import BY_ENGINE, ENGINE, EXPORTER, gauge, increase, target

BY_SOURCE = "instance, source"
SOURCE_LEGEND = "{{instance}} {{source}}"

ITSELF = [
    timeseries(
        "Sources",
        "1 while the last read of a source succeeded: the driver (nvml), the trace, vLLM's own "
        "/metrics or log. At 0 its figures are absent, never old. Normal is 1.",
        target(
            gauge("vllm_memory_exporter_source_up", EXPORTER, BY_SOURCE, over="min"), SOURCE_LEGEND
        ),
        unit="short",
        no_value=NO_SOURCE,
        width=8,
        extent=(0, 1),
        is_stepped=True,
    ),
    timeseries(
        "Age of the last good read",
        "Time since each source last succeeded. Normal is about its interval: half a second for "
        "the driver.",
        target(
            "time() - "
            + gauge(
                "vllm_memory_exporter_source_last_success_timestamp_seconds", EXPORTER, BY_SOURCE
            ),
            SOURCE_LEGEND,
        ),
        unit="s",
        no_value=NO_SOURCE,
        width=8,
    ),
    timeseries(
        "Errors and missed samples",
        "Reads that failed, by reason, and reads that did not happen because an earlier one was "
        "late. Normal is none of both; docs/metrics.md has the reasons.",
        target(
            increase("vllm_memory_exporter_source_errors_total", EXPORTER, f"{BY_SOURCE}, reason"),
            f"{SOURCE_LEGEND} {{{{reason}}}}",
        ),
        target(
            increase("vllm_memory_exporter_missed_samples_total", EXPORTER, BY_SOURCE),
            f"{SOURCE_LEGEND} missed",
        ),
        unit="short",
        no_value=NO_SOURCE,
        width=8,
        is_stepped=True,
    ),
    timeseries(
        "Ledgers told coarsely",
        "How often a GPU's bytes could not be told apart and stand under an owner ending in "
        "_unsplit, by reason. Some while engines start and end are normal.",
        target(
            increase("vllm_memory_exporter_ledger_incoherent_total", EXPORTER, "instance, reason"),
            "{{instance}} {{reason}}",
        ),
        unit="short",
        no_value=NO_EXPORTER,
        width=8,
        is_stepped=True,
    ),
    table(
        "The plugin in the engines",
        "One line for each engine that has it. active is normal; degraded or unsupported come with "
        "a reason, and with figures that are absent.",
        target(
            f"max by ({BY_ENGINE}, vllm_version, plugin_version, status, reason)"
            f" (vllm_plugin_info{{{ENGINE}}})",
            is_instant=True,
            form="table",
        ),
        unit="short",
        no_value=NO_PLUGIN,
        columns={
            "instance": "instance",
            "replica": "replica",
            "engine": "engine",
            "model_name": "model",
            "status": "status",
            "reason": "reason",
            "plugin_version": "plugin",
            "vllm_version": "vLLM",
        },
        sort_by="status",
        width=16,
    ),
]
