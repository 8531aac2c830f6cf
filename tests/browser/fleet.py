"""A recording of many GPUs under engines whose load rises and falls; one fills up, has a guest."""

from collections.abc import Iterator
from math import sin
from pathlib import Path

from exporter.records.device import (
    Device,
    DeviceFacts,
    DeviceMemory,
    DeviceSample,
    ProcessMemory,
)
from exporter.records.trace import Blocks, PageTable, TraceRecord
from tests.browser.scenes import Tick, kv, torch, uuid_of, write

GIB = 2**30
TOTAL_BYTES, RESERVED_BYTES = 141 * GIB, 6 * 10**8
USABLE_BLOCKS = 57_166
BUSY_ENGINE = 1
GUEST_AFTER_S = 38.0


def fleet(path: Path, gpus: int, gpus_per_engine: int, seconds: float = 62.0) -> Path:
    """Write it; engine 1 fills up after 35 s, and a guest comes onto its first GPU at 38 s."""
    return write(path, _ticks(gpus, gpus_per_engine, round(seconds * 2)), name=f"{gpus} GPUs")


def _ticks(gpus: int, gpus_per_engine: int, ticks: int) -> Iterator[Tick]:
    engines = gpus // gpus_per_engine
    preemptions = 0
    for tick in range(ticks):
        at_s = tick / 2
        loads = [_load(engine, at_s) for engine in range(engines)]
        preemptions += 1 + tick % 3 if loads[BUSY_ENGINE] == 1 else 0
        records: list[TraceRecord] = []
        for engine, load in enumerate(loads):
            if tick % 2:
                break  # engines tell once a second
            records.append(_engine(at_s, engine, load, preemptions))
            records += [
                torch(
                    at_s,
                    engine * gpus_per_engine + rank,
                    replica=f"chat-{engine}",
                    pid=1000 + engine * gpus_per_engine + rank,
                    rank=rank,
                    reserved_bytes=124 * GIB,
                    allocated_bytes=120 * GIB,
                    weights_bytes=16 * GIB,
                    kv_pool_bytes=100 * GIB,
                    graph_pool_bytes=2 * GIB,
                )
                for rank in range(gpus_per_engine)
            ]
        guest = BUSY_ENGINE * gpus_per_engine if at_s > GUEST_AFTER_S else None
        yield at_s, [_gpu(index, has_guest=index == guest) for index in range(gpus)], records


def _load(engine: int, at_s: float) -> float:
    if engine == BUSY_ENGINE:
        return min(1.0, 0.5 + at_s / 70)
    return 0.5 + 0.25 * sin(engine * 1.7) + 0.2 * sin(at_s / 9 + engine)


def _engine(at_s: float, engine: int, load: float, preemptions: int) -> TraceRecord:
    active = round(load * USABLE_BLOCKS)
    rest = USABLE_BLOCKS - active
    return kv(
        at_s,
        active,
        USABLE_BLOCKS,
        replica=f"chat-{engine}",
        model_name="Qwen/Qwen3-32B",
        pid=100 + engine,
        blocks=Blocks(total=USABLE_BLOCKS + 1, num_free=rest, cached=rest * 7 // 10),
        page_table=PageTable(num_pages=active, contiguous_pages=active * 2 // 5),
        preemptions=preemptions if engine == BUSY_ENGINE else 0,
        running=round(load * 256),
        waiting=max(0, round((load - 0.95) * 400)),
    )


def _gpu(index: int, *, has_guest: bool) -> Device:
    processes = [ProcessMemory(pid=1000 + index, used_bytes=127 * GIB, name="VLLM::Worker")]
    if has_guest:
        processes.append(ProcessMemory(pid=9, used_bytes=7 * GIB, name="python3"))
    used = sum(process.used_bytes or 0 for process in processes)
    memory = DeviceMemory(
        total_bytes=TOTAL_BYTES,
        used_bytes=used,
        free_bytes=TOTAL_BYTES - RESERVED_BYTES - used,
        reserved_bytes=RESERVED_BYTES,
    )
    return Device(
        facts=DeviceFacts(index=index, uuid=uuid_of(index), name="NVIDIA H200"),
        sample=DeviceSample(
            memory=memory,
            processes=tuple(sorted(processes, key=lambda process: process.pid)),
            memory_controller_utilization_ratio=0.4 + 0.3 * sin(index),
        ),
    )
