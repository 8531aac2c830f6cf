"""Readings and records for tests, with asymmetric figures; every field can be overridden."""

from typing import Any

from exporter.records.device import (
    Device,
    DeviceFacts,
    DeviceMemory,
    DeviceReading,
    DeviceSample,
)
from exporter.records.trace import (
    Blocks,
    EngineRecord,
    KvRecord,
    TorchRecord,
    TraceReading,
    TraceRecord,
)

START_UNIX_NS = 1_800_000_000_000_000_000
UUID = "GPU-00000000-0000-0000-0000-00000000000a"


def device(used_bytes: int | None = 720, index: int = 0, uuid: str = UUID, **sample: Any) -> Device:
    """A GPU of 1000 bytes, 100 of them reserved; `used_bytes` None: it could not be read."""
    facts = DeviceFacts(index=index, uuid=uuid, name="NVIDIA H200")
    if used_bytes is None:
        return Device(facts=facts)
    memory = DeviceMemory(
        total_bytes=1000, used_bytes=used_bytes, free_bytes=900 - used_bytes, reserved_bytes=100
    )
    return Device(facts=facts, sample=DeviceSample(memory=memory, **sample))


def device_reading(*devices: Device, at_s: float = 0.0, interval_s: float = 0.5) -> DeviceReading:
    """A reading `at_s` after `START_UNIX_NS`."""
    return DeviceReading(
        ts_unix_ns=START_UNIX_NS + round(at_s * 1e9), interval_s=interval_s, devices=devices
    )


def kv(at_s: float = 0.0, **fields: Any) -> KvRecord:
    """Engine "0" of replica "node-1", process 10, at a 1 s interval."""
    given = {"pid": 10, "replica": "node-1", "engine": "0", "interval_s": 1.0, **fields}
    return KvRecord(v=1, ts_unix_ns=START_UNIX_NS + round(at_s * 1e9), **given)


def torch(at_s: float = 0.0, **fields: Any) -> TorchRecord:
    """Rank 0 of the same engine, process 20, on GPU `UUID`."""
    given = {
        "pid": 20,
        "replica": "node-1",
        "engine": "0",
        "interval_s": 1.0,
        "rank": 0,
        "uuid": UUID,
        **fields,
    }
    return TorchRecord(v=1, ts_unix_ns=START_UNIX_NS + round(at_s * 1e9), **given)


def facts(at_s: float = 0.0, **fields: Any) -> EngineRecord:
    """Facts of the same engine, told by process 10 every 30 s."""
    given = {"pid": 10, "replica": "node-1", "engine": "0", "interval_s": 30.0, **fields}
    return EngineRecord(v=1, ts_unix_ns=START_UNIX_NS + round(at_s * 1e9), **given)


def blocks(active: int, **fields: Any) -> Blocks:
    """A pool of 100 usable blocks."""
    return Blocks(total=101, num_free=100 - active, **fields)


def trace_reading(*records: TraceRecord) -> TraceReading:
    """One pass over one file."""
    return TraceReading(records=records, lines={"accepted": len(records)}, dropped_bytes=7, files=1)
