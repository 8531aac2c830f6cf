"""A busy machine for the live page's benches: engines under load, every figure moving."""

import random
from collections.abc import Iterator
from typing import Any

from exporter.records.codec import RecordingHeader, encode_line
from exporter.records.device import (
    Device,
    DeviceFacts,
    DeviceMemory,
    DeviceReading,
    DeviceSample,
    ProcessMemory,
)
from exporter.records.trace import (
    Blocks,
    EngineRecord,
    KvRecord,
    PageTable,
    TorchRecord,
    TraceRecord,
)

INTERVAL_S = 0.5
START_UNIX_NS = 1_800_000_000_000_000_000
GIB = 1 << 30
USABLE = 57_166


class Machine:
    """GPUs with an engine each, which tells of itself once a second, half of them at a time.

    Pools fill and drain within a minute, prefixes are cached, requests preempted while the pool is
    full; beside each engine a process grows and shrinks by a few MiB.
    """

    def __init__(self, gpus: int) -> None:
        self._gpus = gpus
        self._random = random.Random(7)
        self._preemptions = [0] * gpus

    def ticks(self, count: int) -> Iterator[tuple[tuple[TraceRecord, ...], DeviceReading]]:
        """What the plugin and NVML tell, tick by tick."""
        for tick in range(count):
            now_ns = START_UNIX_NS + round(tick * INTERVAL_S * 1e9)
            records: list[TraceRecord] = []
            for gpu in range(self._gpus):
                if (tick + gpu) % 2 == 0 or tick == 0:
                    records += self._engine(gpu, tick, now_ns)
            yield tuple(records), self._devices(now_ns)

    def recording(self, seconds: float) -> bytes:
        """The same as a recording."""
        header = RecordingHeader(
            v=1,
            name="busy",
            started_unix_ns=START_UNIX_NS,
            product_version="0",
            interval_s=INTERVAL_S,
        )
        lines = [encode_line(header)]
        for records, reading in self.ticks(round(seconds / INTERVAL_S)):
            lines += [*map(encode_line, records), encode_line(reading)]
        return b"".join(lines)

    def _engine(self, gpu: int, tick: int, now_ns: int) -> list[TraceRecord]:
        of: dict[str, Any] = {
            "v": 1,
            "ts_unix_ns": now_ns,
            "replica": f"node-{gpu:03d}",
            "engine": "0",
        }
        phase = (tick * INTERVAL_S / 60 + gpu / self._gpus) % 1
        fill = min(1.0, 1.3 * (1 - abs(2 * phase - 1)))
        active = round(fill * USABLE * self._random.uniform(0.97, 1))
        num_free = USABLE - active
        pages = active + 40
        if fill == 1:
            self._preemptions[gpu] += self._random.randrange(3)
        allocated = 120 * GIB + self._random.randrange(GIB)
        facts: list[TraceRecord] = []
        if tick % 60 < 2:
            facts.append(EngineRecord(**of, pid=10 + gpu, interval_s=30.0, num_gpu_blocks=57_167))
        return [
            *facts,
            KvRecord(
                **of,
                pid=10 + gpu,
                interval_s=1.0,
                model_name="Qwen/Qwen3-8B",
                blocks=Blocks(total=57_167, num_free=num_free, cached=num_free // 2),
                page_table=PageTable(
                    num_pages=pages, contiguous_pages=round(pages * self._random.uniform(0.2, 0.9))
                ),
                preemptions=self._preemptions[gpu],
                running=self._random.randrange(200, 257),
                waiting=self._random.randrange(100),
            ),
            TorchRecord(
                **of,
                pid=10 + gpu,
                interval_s=1.0,
                rank=0,
                uuid=_uuid(gpu),
                allocated_bytes=allocated,
                reserved_bytes=122 * GIB,
                kv_pool_bytes=100 * GIB,
                weights_bytes=16 * GIB,
            ),
        ]

    def _devices(self, now_ns: int) -> DeviceReading:
        return DeviceReading(
            ts_unix_ns=now_ns,
            interval_s=INTERVAL_S,
            devices=tuple(self._device(gpu) for gpu in range(self._gpus)),
        )

    def _device(self, gpu: int) -> Device:
        other = GIB + self._random.randrange(64 << 20)
        used = 123 * GIB + other
        reserved = 600 << 20
        return Device(
            facts=DeviceFacts(index=gpu, uuid=_uuid(gpu), name="NVIDIA H200"),
            sample=DeviceSample(
                memory=DeviceMemory(
                    total_bytes=140 * GIB,
                    used_bytes=used,
                    free_bytes=140 * GIB - used - reserved,
                    reserved_bytes=reserved,
                ),
                processes=(
                    ProcessMemory(pid=10 + gpu, used_bytes=123 * GIB, name="VLLM::EngineCore"),
                    ProcessMemory(pid=5000 + gpu, used_bytes=other, name="python3"),
                ),
                gpu_utilization_ratio=0.9,
                memory_controller_utilization_ratio=self._random.randrange(40, 100) / 100,
            ),
        )


def _uuid(gpu: int) -> str:
    return f"GPU-{gpu:08x}-0000-4000-8000-000000000000"
