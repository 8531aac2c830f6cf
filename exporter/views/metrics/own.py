"""Families about the exporter itself: its build, its sources and what it had to leave out."""

import platform
from collections.abc import Iterator

from exporter import __version__
from exporter.records.source import SourceHealth
from exporter.records.view import View
from exporter.views.metrics.family import Family, LabelValues, Subject
from exporter.views.metrics.scope import Scope


def _exporter(view: View) -> Iterator[tuple[LabelValues, View]]:
    yield (), view


def _sources(view: View) -> Iterator[tuple[LabelValues, SourceHealth]]:
    for source in view.sources:
        yield (source.name,), source


EXPORTER = Scope((), _exporter)
REPLAYS = EXPORTER.part(lambda view: view.replay)
SOURCES = Scope(("source",), _sources)

DROPPED_SERIES = Family(
    "vllm_memory_exporter_dropped_series_total",
    "counter",
    "Series left out because their family reached its cap, summed over the Views that were "
    "scraped.",
    ("family",),
    lambda _view: (),  # no View knows them: the collector counts what it leaves out
)

OWN = Subject(
    "The exporter itself",
    (
        EXPORTER.info(
            "vllm_memory_exporter_build_info",
            "Version of the exporter and of its Python, value 1.",
            {
                "version": lambda _view: __version__,
                "python_version": lambda _view: platform.python_version(),
            },
        ),
        REPLAYS.info(
            "vllm_memory_exporter_replay",
            "1 while all figures come from this recording; absent with live data.",
            {"recording": lambda recording: recording},
        ),
        SOURCES.gauge(
            "vllm_memory_exporter_source_up",
            "1 when the last read of the source succeeded, else 0.",
            lambda source: source.is_up,
        ),
        SOURCES.gauge(
            "vllm_memory_exporter_source_last_success_timestamp_seconds",
            "Unix time of the last read that succeeded; absent before the first.",
            lambda source: source.last_success_unix_s,
        ),
        SOURCES.counters(
            "vllm_memory_exporter_source_errors_total",
            "Failures of the source by reason, also those of a part of it (one GPU, one file).",
            "reason",
            lambda source: source.errors,
        ),
        SOURCES.histogram(
            "vllm_memory_exporter_sample_duration_seconds",
            "How long each read of the source took.",
            lambda source: source.durations,
        ),
        SOURCES.counter(
            "vllm_memory_exporter_missed_samples_total",
            "Reads that were due and did not happen because an earlier one was late.",
            lambda source: source.missed_samples,
        ),
        EXPORTER.counters(
            "vllm_memory_exporter_trace_lines_total",
            "Lines of trace files by what became of them; no_room: accepted, but too many engines "
            "are known, also from vLLM's own metrics.",
            "outcome",
            lambda view: view.trace_lines,
        ),
        EXPORTER.counter(
            "vllm_memory_exporter_dropped_bytes_total",
            "Bytes of trace files that were skipped without being read as lines.",
            lambda view: view.dropped_bytes,
        ),
        DROPPED_SERIES,
        EXPORTER.counters(
            "vllm_memory_exporter_ledger_incoherent_total",
            "Ledgers of one GPU at one sample in which a split fell back to a coarser owner, by "
            "reason; unknown_gpu counts workers.",
            "reason",
            lambda view: view.ledger_incoherent,
        ),
        EXPORTER.gauges(
            "vllm_memory_exporter_capability",
            "1 when every GPU supports this NVML call, else 0.",
            "call",
            lambda view: view.capabilities,
        ),
        EXPORTER.gauge(
            "vllm_memory_exporter_config_last_reload_successful",
            "1 when the last load of the configuration succeeded, at start or later, else 0.",
            lambda view: view.config_reload_success,
        ),
        EXPORTER.gauge(
            "vllm_memory_exporter_config_last_reload_success_timestamp_seconds",
            "Unix time of the last load of the configuration that succeeded.",
            lambda view: view.config_reload_unix_s,
        ),
        EXPORTER.gauge(
            "vllm_memory_exporter_duplicate_identity",
            "Live processes shown as NAME#PID because an older one has their replica, engine, role "
            "and rank.",
            lambda view: view.duplicate_identities,
        ),
    ),
)
