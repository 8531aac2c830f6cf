"""The View: everything that any consumer shows, frozen at one tick. Renders nothing."""

from msgspec import Struct

from exporter.records.conflict import Conflict, ConflictKind
from exporter.records.device import DeviceFacts, DeviceSample
from exporter.records.device_detail import DeviceDetail, DeviceProfile
from exporter.records.ledger import Ledger, Owner, RankOwner
from exporter.records.pods import GpuHolder
from exporter.records.source import Histogram, SourceHealth
from exporter.records.trace import EngineRecord, KvRecord, TorchRecord


class Window(Struct, frozen=True):
    """Minimum, maximum and mean of the samples of the last 60 s (of what exists of them)."""

    min: float
    max: float
    mean: float


class MigView(Struct, frozen=True, kw_only=True):
    """What is worked out about one MIG device: as of `DeviceView`."""

    ledger: Ledger | None = None
    conflicts: dict[ConflictKind, int] | None = None


class DeviceView(Struct, frozen=True, kw_only=True):
    """One GPU. `sample` is None while it is down; the histograms count since start.

    Pressures are ratios 0–1: device pressure used / (total − driver reserved); effective pressure
    the highest active / usable KV blocks of the engines that hold memory on it. `ledger` is that of
    `sample`, None without it. `conflicts` so far by kind; None where no engine has served.
    `detail` and `profile` are the newest of their lanes; `detail.counters` never go back.
    `mig`: by UUID, of each MIG device in `sample`; an engine on one has its ledger there.
    `xid_errors`: Xid code → errors since start; None before the first.
    """

    facts: DeviceFacts
    is_up: bool
    sample: DeviceSample | None
    used_window_bytes: Window | None
    pressure_ratio: float | None
    pressure_window: Window | None
    pressure_samples: Histogram | None
    effective_pressure_ratio: float | None
    effective_pressure_window: Window | None
    effective_pressure_samples: Histogram | None
    ledger: Ledger | None = None
    conflicts: dict[ConflictKind, int] | None = None
    detail: DeviceDetail | None = None
    profile: DeviceProfile | None = None
    mig: dict[str, MigView] | None = None
    xid_errors: dict[str, int] | None = None


class EngineCounters(Struct, frozen=True, kw_only=True):
    """Cumulative counts that never go back, also over engine restarts; None: never told."""

    query_tokens: float | None = None
    hit_tokens: float | None = None
    preemptions: float | None = None
    evictions: float | None = None
    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    plugin_errors: float | None = None
    plugin_dropped_records: float | None = None
    plugin_seconds: float | None = None
    restarts: int = 0


class EngineView(Struct, frozen=True, kw_only=True):
    """One engine (replica, model, data-parallel rank); `kv` is None when stale, `facts` likewise.

    `hit_ratio`: hits / queries in tokens over the last 60 s; None without queries.
    `headroom_tokens`: tokens that fit into cached and free blocks.
    `exhaustion_seconds`: until no block is left at the present trend; None when not filling.
    `rank_imbalance_bytes`: largest − smallest over its ranks, of what all of them tell; None for
    one rank, and when one of them is not seen.
    """

    replica: str
    model_name: str
    engine: str
    is_up: bool
    kv: KvRecord | None
    facts: EngineRecord | None
    counters: EngineCounters
    hit_ratio: float | None
    usage_ratio: float | None
    usage_window: Window | None
    contiguity_ratio: float | None
    extents: int | None
    kv_fragmentation_ratio: float | None
    free_queue_contiguity_ratio: float | None
    headroom_tokens: int | None
    exhaustion_seconds: float | None
    rank_imbalance_bytes: dict[RankOwner, int] | None = None


class RankView(Struct, frozen=True, kw_only=True):
    """One worker's allocator. `device` is the NVML index of its GPU, None when NVML lacks it.

    `fragmentation_bytes` = reserved − allocated (the allocator gap), ratio of reserved;
    `oom_margin_bytes`: DESIGN's margin, can be negative. `alloc_retries`, `ooms` never go back.
    `parts_bytes`: its process in the ledger by owner; None when it is not told apart.
    """

    replica: str
    model_name: str
    engine: str
    rank: int
    device: int | None
    torch: TorchRecord
    fragmentation_bytes: int | None
    fragmentation_ratio: float | None
    oom_margin_bytes: int | None
    alloc_retries: float | None
    ooms: float | None
    parts_bytes: dict[Owner, int] | None = None


class SilentRankView(Struct, frozen=True, kw_only=True):
    """What a worker that tells nothing any more had counted: it may have ended because of it."""

    replica: str
    model_name: str
    engine: str
    rank: int
    device: int | None
    uuid: str | None
    alloc_retries: float | None
    ooms: float | None


class GpuHolderView(Struct, frozen=True, kw_only=True):
    """A container and its GPU. `device` is NVML's index of the GPU; None when NVML lacks its uuid.

    With a MIG slice it is the index of the GPU that the slice lies on.
    """

    device: int | None
    holder: GpuHolder


class View(Struct, frozen=True, kw_only=True):
    """One moment as every consumer sees it.

    `replay`: name of the recording when this is no live data. `trace_lines`: outcome → lines since
    start. `capabilities`: NVML call → supported. `duplicate_identities`: processes shown under
    another name because a live one has theirs. `published_monotonic_s`: for the age of the View.
    `conflicts`: the newest 100, oldest first. `ledger_incoherent`: by `LedgerReason`, how often a
    GPU's split fell back to a coarser one.
    """

    ts_unix_ns: int
    published_monotonic_s: float
    interval_s: float
    replay: str | None
    devices: tuple[DeviceView, ...]
    engines: tuple[EngineView, ...]
    ranks: tuple[RankView, ...]
    sources: tuple[SourceHealth, ...]
    trace_lines: dict[str, int]
    dropped_bytes: int
    capabilities: dict[str, bool]
    duplicate_identities: int
    conflicts: tuple[Conflict, ...] = ()
    ledger_incoherent: dict[str, int] = {}
    gpu_holders: tuple[GpuHolderView, ...] = ()
    silent_ranks: tuple[SilentRankView, ...] = ()
    config_reload_success: bool | None = None
    config_reload_unix_s: float | None = None
