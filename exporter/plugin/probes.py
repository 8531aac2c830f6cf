"""The probes of one scheduler, each with its guard: what this vLLM has is found by trying."""

from collections.abc import Callable
from typing import TypeVar

from exporter.plugin.block_probe import BlockProbe, GroupTables
from exporter.plugin.engine_shapes import Scheduler
from exporter.plugin.evictions import EvictionCount
from exporter.plugin.facts import read
from exporter.plugin.flow_counts import FlowCounts
from exporter.plugin.guard import Guard
from exporter.plugin.pool_scan import PoolScan

T = TypeVar("T")


class SchedulerProbes:
    """What can be read of one scheduler; a part that is None has a guard that is off."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.pool, self.pool_guard = _try(
            "pool", lambda: PoolScan(scheduler.kv_cache_manager.block_pool)
        )
        null_id = self.pool.null_id if self.pool else 0
        self.tables, self.tables_guard = _try(
            "page_table", lambda: BlockProbe(scheduler, group_tables(scheduler, null_id))
        )
        self.flow, self.flow_guard = _try("flow", lambda: FlowCounts(scheduler))
        self.evictions, self.evictions_guard = _try(
            "evictions", lambda: EvictionCount(scheduler.kv_cache_manager.block_pool)
        )
        self.slots_guard = Guard("slots")
        self.peak_guard = Guard("pool_peak")
        self.scan_guard = Guard("pool_scan")
        self.prefix_cache_guard = Guard("prefix_cache")
        self.queues_guard = Guard("queues")
        self.work_guard = Guard("samples")
        self.guards = (
            self.work_guard,
            self.tables_guard,
            self.slots_guard,
            self.pool_guard,
            self.peak_guard,
            self.scan_guard,
            self.flow_guard,
            self.prefix_cache_guard,
            self.evictions_guard,
            self.queues_guard,
        )

    def capabilities(self) -> dict[str, bool]:
        """Each probe by name, and whether it is there and on."""
        return {guard.name: guard.is_on for guard in self.guards}


def group_tables(scheduler: Scheduler, null_id: int) -> list[GroupTables]:
    """One entry per KV cache group. Source: `kv_cache_config.kv_cache_groups[g].kv_cache_spec`.

    Block sizes are the managers' own, in which context parallelism is counted.
    """
    specs = [group.kv_cache_spec for group in scheduler.kv_cache_config.kv_cache_groups]
    managers = read(scheduler, "kv_cache_manager.coordinator.single_type_managers")
    owners = managers if isinstance(managers, tuple) and len(managers) == len(specs) else specs
    return [
        GroupTables(_kind(spec), int(owner.block_size), null_id)
        for spec, owner in zip(specs, owners, strict=True)
    ]


def _kind(spec: object) -> str:
    """vLLM's name of the spec; of one that wraps equal kinds, the name of those."""
    inner = read(spec, "kv_cache_specs")
    if isinstance(inner, dict) and inner:
        spec = next(iter(inner.values()))
    return type(spec).__name__


def _try(name: str, make: Callable[[], T]) -> tuple[T | None, Guard]:
    try:
        return make(), Guard(name)
    except AttributeError as exc:
        return None, Guard(name, missing=exc.name or "attribute")
    except Exception as exc:
        return None, Guard(name, missing=f"usable attribute ({type(exc).__name__})")
