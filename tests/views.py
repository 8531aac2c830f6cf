"""Views for tests: one with every field filled, one with none, and the parts to build others."""

from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from exporter.records.conflict import Conflict, ProcessRow
from exporter.records.device import (
    DeviceFacts,
    DeviceMemory,
    DeviceSample,
    MigDevice,
    ProcessMemory,
    UnifiedMemory,
)
from exporter.records.device_detail import DeviceDetail, DeviceProfile
from exporter.records.ledger import Ledger
from exporter.records.pods import GpuHolder
from exporter.records.source import Histogram, SourceHealth
from exporter.records.trace import (
    Blocks,
    EngineRecord,
    FreeRuns,
    KvRecord,
    PageTable,
    PrefixCache,
    ScheduledTokens,
    Slots,
    TorchRecord,
)
from exporter.records.view import (
    DeviceView,
    EngineCounters,
    EngineView,
    GpuHolderView,
    MigView,
    RankView,
    View,
    Window,
)

TS_UNIX_NS = 1_795_960_065_000_000_000
S = TypeVar("S", bound=Struct)

REPLICA, MODEL, ENGINE = "blue-0", "Qwen/Qwen3-8B", "0"


def gpu_uuid(index: int) -> str:
    return f"GPU-00000000-0000-4000-8000-{index:012x}"


def mig_uuid(index: int) -> str:
    return f"MIG-00000000-0000-4000-8000-{index:012x}"


def gpu_view(index: int = 0, processes: int = 2) -> DeviceView:
    """A GPU of 1000 bytes: 600 used, 350 free, 50 reserved, so 600 / 950 of pressure."""
    return DeviceView(
        facts=DeviceFacts(
            index=index,
            uuid=gpu_uuid(index),
            name="NVIDIA H200",
            pci_bus_id=f"00000000:{index + 16:02X}:00.0",
            driver_version="570.124.06",
        ),
        is_up=True,
        sample=DeviceSample(
            memory=DeviceMemory(
                total_bytes=1000, used_bytes=600, free_bytes=350, reserved_bytes=50
            ),
            processes=tuple(
                ProcessMemory(pid=4100 + n, used_bytes=200 + n, name=f"worker-{n}")
                for n in range(processes)
            ),
            gpu_utilization_ratio=0.97,
            memory_controller_utilization_ratio=0.41,
            power_watts=512.5,
            temperatures_celsius={"gpu": 61, "memory": 74},
            clocks_hertz={"sm": 1.98e9, "memory": 3.201e9},
            event_reasons={"sw_power_cap": True, "hw_thermal_slowdown": False},
            unified_memory=UnifiedMemory(total_bytes=3000, available_bytes=1100),
            mig=(
                MigDevice(
                    uuid=mig_uuid(index),
                    gpu_instance_id=2,
                    compute_instance_id=1,
                    profile="3g.71gb",
                    memory=DeviceMemory(
                        total_bytes=400, used_bytes=250, free_bytes=120, reserved_bytes=30
                    ),
                ),
            ),
        ),
        used_window_bytes=Window(min=580, max=620, mean=601.5),
        pressure_ratio=600 / 950,
        pressure_window=Window(min=580 / 950, max=620 / 950, mean=601.5 / 950),
        pressure_samples=Histogram((0.5, 0.9), (3, 7, 1), 6.25),
        effective_pressure_ratio=0.25,
        effective_pressure_window=Window(min=0.1, max=0.75, mean=0.3),
        effective_pressure_samples=Histogram((0.5, 0.9), (5, 2, 0), 2.125),
        ledger=Ledger(
            owners_bytes={
                "driver_reserved": 50,
                "free": 350,
                "unattributed": 199,
                "other_processes": 201,
                "engine_unsplit": 200,
            },
            effective_used_bytes=487,
            reasons=("stale",),
        ),
        conflicts={"co_tenant": 1, "pressure": 0, "margin": 0},
        detail=DeviceDetail(
            power_limit_watts=700.5,
            bar1_total_bytes=2000,
            bar1_used_bytes=17,
            remapped_rows={"correctable": 4, "uncorrectable": 3, "pending": 1, "failure": 0},
            pcie_link_generation=4,
            pcie_link_max_generation=5,
            pcie_link_lanes=8,
            pcie_link_max_lanes=16,
            nvlinks={"up": 17, "down": 1},
            counters={
                "energy_joules": 2895.846,
                "pcie_replays": 11,
                "ecc_corrected_volatile": 7,
                "ecc_uncorrected_volatile": 2,
                "ecc_corrected_aggregate": 31,
                "ecc_uncorrected_aggregate": 5,
                "nvlink_transmit_bytes": 5_120_000,
                "nvlink_receive_bytes": 1 << 50,
                "nvlink_crc_flit_errors": 21,
                "nvlink_crc_data_errors": 22,
                "nvlink_replay_errors": 23,
                "nvlink_recovery_errors": 24,
            },
        ),
        profile=DeviceProfile(
            dram_bandwidth_utilization_ratio=0.53,
            sm_utilization_ratio=0.66,
            sm_occupancy_ratio=0.14,
            tensor_utilization_ratio=0.31,
            pcie_transmit_bytes_per_second=7000,
            pcie_receive_bytes_per_second=9000,
            nvlink_transmit_bytes_per_second=70_000,
            nvlink_receive_bytes_per_second=90_000,
        ),
        mig={
            mig_uuid(index): MigView(
                ledger=Ledger(
                    owners_bytes={"free": 120, "driver_reserved": 30, "used_unsplit": 250},
                    effective_used_bytes=None,
                    reasons=("processes_unknown",),
                ),
                conflicts={"co_tenant": 3, "pressure": 0, "margin": 0},
            )
        },
        xid_errors={"79": 1, "48": 3},
    )


def co_tenant() -> Conflict:
    """A process that took 201 bytes and is still there."""
    row = ProcessRow(
        uuid=gpu_uuid(0),
        pid=4101,
        name="worker-1",
        used_bytes=201,
        start_unix_s=1_795_960_050.25,
        command="worker-1 --api-key ***",
    )
    return Conflict(
        id=1,
        ts_unix_ns=TS_UNIX_NS - 9_000_000_000,
        kind="co_tenant",
        uuid=gpu_uuid(0),
        pid=4101,
        used_bytes=201,
        growth_bytes={gpu_uuid(0): 201},
        margin_bytes=None,
        processes=(row,),
    )


def engine_view() -> EngineView:
    """An engine of 41 blocks: 10 active, 6 cached, 24 free, 1 null; 17 of 42 pages contiguous."""
    identity: dict[str, Any] = {
        "v": 1,
        "ts_unix_ns": TS_UNIX_NS,
        "pid": 4100,
        "replica": REPLICA,
        "engine": ENGINE,
        "model_name": MODEL,
    }
    return EngineView(
        replica=REPLICA,
        model_name=MODEL,
        engine=ENGINE,
        is_up=True,
        kv=KvRecord(
            **identity,
            interval_s=1,
            block_size=16,
            page_table=PageTable(num_pages=42, contiguous_pages=17, descending_pages=11, tables=3),
            blocks=Blocks(total=41, num_free=30, null=1, cached=6, shared=2, active_peak=12),
            free_runs=FreeRuns(runs=4, longest_run_blocks=13, queue_walked=20, queue_contiguous=9),
            slots=Slots(allocated=160, used=144),
            prefix_cache=PrefixCache(query_tokens=900, hit_tokens=360),
            tokens=ScheduledTokens(prompt=7000, generation=2500),
            preemptions=8,
            evictions=19,
            running=5,
            waiting=14,
        ),
        facts=EngineRecord(
            **identity,
            interval_s=30,
            vllm_version="0.19.1",
            plugin_version="0.1.0",
            status="degraded",
            reason="no_free_queue",
            block_size=16,
            num_gpu_blocks=41,
            gpu_memory_utilization=0.9,
            cache_dtype="auto",
            enable_prefix_caching=True,
            tensor_parallel_size=2,
        ),
        counters=EngineCounters(
            query_tokens=900,
            hit_tokens=360,
            preemptions=8,
            evictions=19,
            prompt_tokens=7000,
            generation_tokens=2500,
            plugin_errors=1,
            plugin_dropped_records=23,
            plugin_seconds=0.75,
            restarts=2,
        ),
        hit_ratio=0.4,
        usage_ratio=0.25,
        usage_window=Window(min=0.05, max=0.75, mean=0.35),
        contiguity_ratio=17 / 42,
        extents=28,
        kv_fragmentation_ratio=0.1,
        free_queue_contiguity_ratio=0.45,
        headroom_tokens=480,
        exhaustion_seconds=33.5,
        rank_imbalance_bytes={"weights": 12, "free": 31},
    )


def rank_view(rank: int = 0) -> RankView:
    """A worker that holds 500 bytes from the driver, 380 of them in tensors."""
    return RankView(
        replica=REPLICA,
        model_name=MODEL,
        engine=ENGINE,
        rank=rank,
        device=rank,
        torch=TorchRecord(
            v=1,
            ts_unix_ns=TS_UNIX_NS,
            pid=4100 + rank,
            replica=REPLICA,
            engine=ENGINE,
            interval_s=1,
            model_name=MODEL,
            rank=rank,
            uuid=gpu_uuid(rank),
            allocated_bytes=380,
            allocated_peak_bytes=410,
            reserved_bytes=500,
            active_bytes=390,
            inactive_split_bytes=15,
            device_free_bytes=349,
            device_total_bytes=999,
            weights_bytes=170,
            kv_pool_bytes=205,
            graph_pool_bytes=7,
            largest_free_block_bytes=64,
        ),
        fragmentation_bytes=120,
        fragmentation_ratio=0.24,
        oom_margin_bytes=424,
        alloc_retries=6,
        ooms=1,
        parts_bytes={"weights": 170, "torch_other": 210, "allocator_slack": 120, "non_torch": 60},
    )


def make_view(**changes: Any) -> View:
    """A View in which every field is known, of one GPU, engine, rank and source; then `changes`."""
    view = View(
        ts_unix_ns=TS_UNIX_NS,
        published_monotonic_s=100.0,
        interval_s=0.5,
        replay="tp4",
        devices=(gpu_view(),),
        engines=(engine_view(),),
        ranks=(rank_view(),),
        sources=(
            SourceHealth(
                name="nvml",
                is_up=True,
                last_success_unix_s=1_795_960_064.75,
                errors={"gpu_is_lost": 4},
                missed_samples=9,
                durations=Histogram((0.001, 0.01), (31, 5, 2), 0.375),
            ),
        ),
        trace_lines={"ok": 77, "invalid": 3},
        dropped_bytes=1024,
        capabilities={"memory_v2": True, "gpm": False},
        duplicate_identities=1,
        conflicts=(co_tenant(),),
        ledger_incoherent={"stale": 11, "asleep": 0},
        gpu_holders=(
            GpuHolderView(device=0, holder=GpuHolder(gpu_uuid(0), "serving", "blue-0", "vllm")),
        ),
        config_reload_success=True,
        config_reload_unix_s=1_795_960_000.5,
    )
    return replace(view, **changes)


def bare_view() -> View:
    """A View in which nothing optional is known: a GPU that is down, engine and rank silent."""
    gpu = replace(_knowing(gpu_view(), "facts"), is_up=False)
    engine = _knowing(engine_view(), "replica", "model_name", "engine")
    torch = _knowing(
        rank_view().torch, "v", "ts_unix_ns", "replica", "engine", "interval_s", "rank"
    )
    rank = _knowing(rank_view(), "replica", "model_name", "engine", "rank")
    return make_view(
        replay=None,
        devices=(gpu,),
        engines=(replace(engine, is_up=False, counters=EngineCounters()),),
        ranks=(replace(rank, torch=torch),),
        sources=(),
        trace_lines={},
        capabilities={},
        conflicts=(),
        ledger_incoherent={},
        gpu_holders=(),
        config_reload_success=None,
        config_reload_unix_s=None,
    )


def _knowing(record: S, *fields: str) -> S:
    """The record with None in every other field."""
    return replace(record, **dict.fromkeys(set(record.__struct_fields__) - set(fields)))
