"""Where probes, writers and files of this process are put together; nothing here may raise."""

import logging
import os
import weakref

from msgspec import structs

from exporter.plugin.allocator_probe import AllocatorProbe
from exporter.plugin.engine_shapes import Scheduler
from exporter.plugin.entrypoint import TRACE_DIR_VARIABLE
from exporter.plugin.facts import Identity, as_count, engine_facts, identity, read
from exporter.plugin.scheduler_tap import SchedulerTap
from exporter.plugin.settings import TraceSettings
from exporter.plugin.trace_file import TraceFile
from exporter.plugin.trace_writer import RecordSource, TraceWriter

_log = logging.getLogger(__name__)
_taps: "weakref.WeakSet[SchedulerTap]" = weakref.WeakSet()
_names: set[str] = set()


def attach_scheduler(scheduler: Scheduler) -> SchedulerTap | None:
    """Start tracing a scheduler that vLLM has just made. Never raises.

    Returns: None when the trace is off by now, or that failed (which is logged).
    """
    try:
        if not os.environ.get(TRACE_DIR_VARIABLE):
            return None
        settings = TraceSettings.from_environment(os.environ)
        config = read(scheduler, "vllm_config")
        who = _unique(identity(config, settings.replica, "engine"))
        blocks = read(scheduler, "kv_cache_manager.block_pool.num_gpu_blocks")
        tap = SchedulerTap(
            scheduler,
            who,
            engine_facts(config, blocks),
            settings.interval_s,
            settings.worst_tables,
        )
        tap.put = _start_writer(settings, who, tap).put
        _taps.add(tap)
        return tap
    except Exception:
        _log.warning("the memory trace of this engine is off", exc_info=True)
        return None


def attach_worker(worker: object) -> None:
    """Start tracing the allocator of a worker that vLLM has just made. Never raises."""
    try:
        if not os.environ.get(TRACE_DIR_VARIABLE):
            return
        settings = TraceSettings.from_environment(os.environ)
        config = read(worker, "vllm_config")
        rank = as_count(read(worker, "rank")) or 0
        who = _unique(identity(config, settings.replica, "worker", rank))
        probe = AllocatorProbe(worker, who, engine_facts(config), settings.interval_s)
        _start_writer(settings, who, probe)
    except Exception:
        _log.warning("the memory trace of this worker is off", exc_info=True)


def _start_writer(settings: TraceSettings, who: Identity, source: RecordSource) -> TraceWriter:
    file = TraceFile(settings.directory, who.file_name, settings.max_directory_bytes)
    writer = TraceWriter(file, source)
    writer.start()
    return writer


def _unique(who: Identity) -> Identity:
    """The identity, a second younger where this process has used its file name before."""
    while who.file_name in _names:
        who = structs.replace(who, start_unix_ns=who.start_unix_ns + 1_000_000_000)
    _names.add(who.file_name)
    return who


def _stop_in_child() -> None:
    """After a fork the writers' threads are in the parent, and so are the files' owners."""
    for tap in list(_taps):
        tap.stop()
    _taps.clear()


os.register_at_fork(after_in_child=_stop_in_child)
