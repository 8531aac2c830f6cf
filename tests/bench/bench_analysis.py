"""What a tick's analysis takes: ledger and conflicts of 64 GPUs × 16 processes × 8 engines.

Run as ``python -m tests.bench.bench_analysis``. Each engine has eight ranks on GPUs of its own;
beside its worker each GPU has 15 other processes. All figures change from tick to tick, and every
GPU has a co-tenant conflict that goes on: nothing can be kept from one tick to the next.
"""

import statistics
import time
from typing import Any

from exporter.analysis.conflict_signs import ConflictRules
from exporter.analysis.conflicts import ConflictState, advance
from exporter.analysis.ledger import ledgers
from exporter.analysis.worker import Worker
from exporter.records.device import DeviceMemory, DeviceSample, ProcessMemory
from exporter.records.trace import Blocks, EngineRecord, KvRecord, TorchRecord

GPUS, PROCESSES, ENGINES = 64, 16, 8
TICKS = 300
LIMIT_MS = 5.0
MIB = 2**20


def main() -> None:
    """Print median and 99th percentile of ledger, conflicts and both, in milliseconds."""
    ledger_ms, conflicts_ms = [], []
    state = ConflictState()
    for tick in range(TICKS):
        samples = {_uuid(gpu): _sample(gpu, tick) for gpu in range(GPUS)}
        workers = [_worker(gpu, tick) for gpu in range(GPUS)]
        start = time.perf_counter()
        result = ledgers(samples, workers)
        middle = time.perf_counter()
        step = advance(state, ConflictRules(), tick * 500_000_000, samples, workers, result)
        end = time.perf_counter()
        state = step.state
        ledger_ms.append(1e3 * (middle - start))
        conflicts_ms.append(1e3 * (end - middle))
    if result.reasons or len(state.standing) != GPUS:
        raise SystemExit("the machine is not what this bench is about")
    both_ms = [sum(pair) for pair in zip(ledger_ms, conflicts_ms, strict=True)]
    print(f"analysis: {GPUS} GPUs × {PROCESSES} processes × {ENGINES} engines, {TICKS} ticks")
    for name, times in (("ledger", ledger_ms), ("conflicts", conflicts_ms), ("both", both_ms)):
        p99 = statistics.quantiles(times, n=100)[98]
        print(f"{name} median {statistics.median(times):.2f} ms, p99 {p99:.2f} ms")
    if statistics.median(both_ms) > LIMIT_MS:
        raise SystemExit(f"above the limit of {LIMIT_MS} ms")


def _uuid(gpu: int) -> str:
    return f"GPU-{gpu:08x}-0000-4000-8000-000000000000"


def _sample(gpu: int, tick: int) -> DeviceSample:
    others = [
        (300 if tick and other == 1 else 20) * MIB + tick * 4096 for other in range(1, PROCESSES)
    ]
    held = [60_000 * MIB, *others]
    used_bytes = sum(held) + 9 * MIB
    return DeviceSample(
        memory=DeviceMemory(
            total_bytes=140_000 * MIB,
            used_bytes=used_bytes,
            free_bytes=139_000 * MIB - used_bytes,
            reserved_bytes=1000 * MIB,
        ),
        processes=tuple(
            ProcessMemory(pid=100 * gpu + row, used_bytes=used, name="python3")
            for row, used in enumerate(held)
        ),
    )


def _worker(gpu: int, tick: int) -> Worker:
    engine, rank = divmod(gpu, GPUS // ENGINES)
    given: dict[str, Any] = {"v": 1, "ts_unix_ns": 1, "replica": f"vllm-{engine}", "engine": "0"}
    return Worker(
        replica=f"vllm-{engine}",
        engine="0",
        torch=TorchRecord(
            **given,
            interval_s=1.0,
            rank=rank,
            uuid=_uuid(gpu),
            allocated_bytes=55_000 * MIB + tick,
            allocated_peak_bytes=56_000 * MIB,
            reserved_bytes=57_000 * MIB,
            inactive_split_bytes=200 * MIB,
            device_free_bytes=9_000 * MIB,
            weights_bytes=16_000 * MIB,
            kv_pool_bytes=36_000 * MIB,
            graph_pool_bytes=100 * MIB,
            graph_pool_allocated_bytes=30 * MIB,
        ),
        torch_age_intervals=0.5,
        kv=KvRecord(
            **given,
            interval_s=1.0,
            blocks=Blocks(total=18_000, num_free=9_000 + tick, cached=4_000),
        ),
        kv_age_intervals=0.5,
        facts=EngineRecord(**given, interval_s=30.0, num_gpu_blocks=18_000),
        host_pid=100 * gpu,
    )


if __name__ == "__main__":
    main()
