"""Recordings made for the page: six GPUs whose figures can be told by heart, and hostile names."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from exporter.records.codec import RecordingHeader, encode_line
from exporter.records.device import (
    Device,
    DeviceFacts,
    DeviceMemory,
    DeviceReading,
    DeviceSample,
    ProcessMemory,
)
from exporter.records.trace import Blocks, KvRecord, TorchRecord, TraceRecord

START_UNIX_NS = 1_800_000_000_000_000_000
MIB = 2**20
TOTAL_MIB, RESERVED_MIB = 11_000, 1_000
HOSTILE = '<img src="/static/icon.svg" onerror="document.title=\'owned\'">'


def uuid_of(index: int) -> str:
    """The UUID of a GPU."""
    return f"GPU-00000000-0000-4000-8000-{index:012x}"


def gpu(
    index: int, used_mib: int | None, *processes: ProcessMemory, controller: float | None = None
) -> Device:
    """A GPU of 11,000 MiB, 1,000 of them the driver's; `used_mib` None: it does not answer.

    Its pressure is used / 10,000.
    """
    facts = DeviceFacts(index=index, uuid=uuid_of(index), name="NVIDIA H200")
    if used_mib is None:
        return Device(facts=facts)
    memory = DeviceMemory(
        total_bytes=TOTAL_MIB * MIB,
        used_bytes=used_mib * MIB,
        free_bytes=(TOTAL_MIB - RESERVED_MIB - used_mib) * MIB,
        reserved_bytes=RESERVED_MIB * MIB,
    )
    sample = DeviceSample(
        memory=memory, processes=processes, memory_controller_utilization_ratio=controller
    )
    return Device(facts=facts, sample=sample)


def kv(at_s: float, active: int, usable: int = 1000, **fields: object) -> KvRecord:
    """An engine with a pool of that many usable blocks, none of them cached."""
    given: dict[str, object] = {
        "pid": 10,
        "replica": "blue-0",
        "engine": "0",
        "interval_s": 1.0,
        "model_name": "llama",
        "blocks": Blocks(total=usable + 1, num_free=usable - active, cached=0),
        **fields,
    }
    return KvRecord(v=1, ts_unix_ns=_ns(at_s), **given)  # type: ignore[arg-type]  # by name


def torch(at_s: float, index: int, **fields: object) -> TorchRecord:
    """A worker on a GPU: 4,000 MiB reserved, 3,002 allocated, of them weights 1,000, KV 2,002."""
    given: dict[str, object] = {
        "pid": 20,
        "replica": "blue-0",
        "engine": "0",
        "interval_s": 1.0,
        "model_name": "llama",
        "rank": 0,
        "uuid": uuid_of(index),
        "reserved_bytes": 4000 * MIB,
        "allocated_bytes": 3002 * MIB,
        "weights_bytes": 1000 * MIB,
        "kv_pool_bytes": 2002 * MIB,
        "graph_pool_bytes": 0,
        **fields,
    }
    return TorchRecord(v=1, ts_unix_ns=_ns(at_s), **given)  # type: ignore[arg-type]  # by name


Tick = tuple[float, Sequence[Device], Sequence[TraceRecord]]
"""Seconds since the start, the GPUs then, and what engines told before."""


def write(path: Path, ticks: Iterable[Tick], name: str = "scene") -> Path:
    """A recording of these ticks."""
    header = RecordingHeader(
        v=1, name=name, started_unix_ns=START_UNIX_NS, product_version="0.1.0", interval_s=0.5
    )
    lines = [encode_line(header)]
    for at_s, devices, records in ticks:
        lines += [encode_line(record) for record in records]
        lines.append(
            encode_line(DeviceReading(ts_unix_ns=_ns(at_s), interval_s=0.5, devices=tuple(devices)))
        )
    path.write_bytes(b"".join(lines))
    return path


def _ns(at_s: float) -> int:
    return START_UNIX_NS + round(at_s * 1e9)
