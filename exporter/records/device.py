"""What NVML says about each GPU at one moment; knows no NVML calls and no engines."""

from typing import Literal

from msgspec import Struct

MemoryKind = Literal["dedicated", "unified"]


class DeviceFacts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What does not change while the driver runs.

    `index`: NVML index (PCI order); `uuid`: with ``GPU-``, the only thing to join on.
    """

    index: int
    uuid: str
    name: str = ""
    pci_bus_id: str = ""
    driver_version: str = ""
    memory_kind: MemoryKind = "dedicated"


class DeviceMemory(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """nvmlDeviceGetMemoryInfo, in bytes.

    v2: total = used + free + reserved, reserved being the driver's and firmware's. v1 counts
    reserved into used: then `reserved_bytes` is None.
    """

    total_bytes: int
    used_bytes: int
    free_bytes: int
    reserved_bytes: int | None = None


class ProcessMemory(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One process on one GPU: host pid, bytes (None where the driver does not say), short name."""

    pid: int
    used_bytes: int | None = None
    name: str | None = None


class UnifiedMemory(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Memory that GPU and CPU share, in bytes (/proc/meminfo: MemTotal, MemAvailable).

    What of it the GPU uses nobody says: total − available is not that.
    """

    total_bytes: int
    available_bytes: int


class MigDevice(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A MIG device: a compute instance of a GPU instance. Its bytes are among those of its GPU.

    `profile` as NVIDIA names it (``3g.71gb``). `is_up`: NVML answers for it. Compute instances of
    one GPU instance share its memory: the first of them has it, the others have None. `processes`
    and `is_coherent` as in `DeviceSample`.
    """

    uuid: str
    gpu_instance_id: int
    compute_instance_id: int
    profile: str = ""
    is_up: bool = True
    memory: DeviceMemory | None = None
    processes: tuple[ProcessMemory, ...] | None = None
    is_coherent: bool = True


class DeviceSample(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Changing figures of one GPU; None is unknown.

    `processes`: compute ∪ graphics, one row a pid, by pid. `memory_controller_utilization_ratio` is
    the share of time that memory was read or written, not its fullness. `temperatures_celsius` by
    sensor (gpu, memory), `clocks_hertz` by clock (sm, memory), `event_reasons`: each reason the
    device supports and whether it holds the clocks down now. `is_coherent`: memory did not move
    while the processes were read. `unified_memory` instead of `memory` where the GPU has none of
    its own. `mig`: its MIG devices, by instance ids.
    """

    memory: DeviceMemory | None = None
    processes: tuple[ProcessMemory, ...] | None = None
    is_coherent: bool = True
    gpu_utilization_ratio: float | None = None
    memory_controller_utilization_ratio: float | None = None
    power_watts: float | None = None
    temperatures_celsius: dict[str, float] | None = None
    clocks_hertz: dict[str, float] | None = None
    event_reasons: dict[str, bool] | None = None
    unified_memory: UnifiedMemory | None = None
    mig: tuple[MigDevice, ...] = ()


class Device(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One GPU: its facts and its sample; `sample` is None when this GPU could not be read."""

    facts: DeviceFacts
    sample: DeviceSample | None = None


class DeviceReading(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag="device", tag_field="type"
):
    """All GPUs at one moment, by index; a GPU once seen stays listed, without a sample when lost.

    `capabilities`: NVML call → whether every GPU supports it; None when nothing changed since the
    reading before.
    """

    ts_unix_ns: int
    interval_s: float
    devices: tuple[Device, ...]
    capabilities: dict[str, bool] | None = None
