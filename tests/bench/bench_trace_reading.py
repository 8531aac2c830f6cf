"""How fast trace files are read, against msgspec's bare typed decoding of the same lines.

Run as ``python -m tests.bench.bench_trace_reading``. Both are timed in alternation on one file of
what the plugin writes for one engine: per second a `kv` and a `torch` record, and every 30 s an
`engine` record. The ratio is bare time / our time: 1 would be reading at no cost beside decoding.
"""

import gc
import statistics
import tempfile
import time
from pathlib import Path

import msgspec

from exporter.clock import SystemClock
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
    TraceRecord,
)
from exporter.sources.trace import TraceSource

SECONDS = 2_000  # of trace in one reading: 2 MiB, so that nothing is skipped as backlog
ROUNDS = 60
FLOOR, AIM = 0.6, 0.8


def main() -> None:
    """Print the median ratio with its range, and both rates in lines per second."""
    lines = [msgspec.json.encode(record) for second in range(SECONDS) for record in _at(second)]
    block = b"\n".join(lines) + b"\n"
    decode = msgspec.json.Decoder(TraceRecord).decode
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "replica.EngineCore.dp0.r0.4242-1795956000.jsonl")
        path.touch()
        source = TraceSource([directory], 0.25, SystemClock())
        source.read()
        bare_s, ours_s = [], []
        for _ in range(ROUNDS):
            gc.collect()
            start = time.perf_counter()
            bare = [decode(line) for line in lines]
            bare_s.append(time.perf_counter() - start)
            with path.open("ab") as file:
                file.write(block)
            gc.collect()
            start = time.perf_counter()
            reading = source.read()
            ours_s.append(time.perf_counter() - start)
            if reading is None or list(reading.records) != bare or reading.dropped_bytes:
                raise SystemExit("the source did not read what stands in the file")
        source.close()
    ratios = [bare / ours for bare, ours in zip(bare_s, ours_s, strict=True)]
    median = statistics.median(ratios)
    report = (
        f"trace reading: {len(lines)} lines, {len(block) / len(lines):.0f} bytes each\n"
        f"bare decoding {len(lines) / statistics.median(bare_s):,.0f} lines/s, "
        f"trace source {len(lines) / statistics.median(ours_s):,.0f} lines/s\n"
        f"ratio {median:.3f} (min {min(ratios):.3f}, max {max(ratios):.3f}, {ROUNDS} pairs); "
        f"floor {FLOOR}, aim {AIM}"
    )
    print(report)
    if median < FLOOR:
        raise SystemExit(f"below the floor of {FLOOR}")


def _at(second: int) -> list[TraceRecord]:
    """What one engine writes in one second; values of a busy H200, changing with `second`."""
    ts_unix_ns = 1_795_956_239_982_000_000 + second * 10**9
    active = 1_500 + second % 400
    kv = KvRecord(
        v=1,
        ts_unix_ns=ts_unix_ns,
        pid=4242,
        replica="llama-8b-0",
        engine="0",
        interval_s=1.0,
        model_name="meta-llama/Llama-3-8B",
        block_size=16,
        page_table=PageTable(
            num_pages=active + 37, contiguous_pages=active - 90, descending_pages=21, tables=16
        ),
        blocks=Blocks(
            total=56_080, num_free=56_079 - active, cached=41_007, shared=37, active_peak=active + 5
        ),
        free_runs=FreeRuns(
            runs=212, longest_run_blocks=31_006, queue_walked=4_096, queue_contiguous=3_011
        ),
        slots=Slots(allocated=16 * active, used=16 * active - 131),
        prefix_cache=PrefixCache(
            query_tokens=36_000 * second,
            hit_tokens=22_000 * second,
            vllm_query_tokens=36_011 * second,
            vllm_hit_tokens=22_007 * second,
        ),
        tokens=ScheduledTokens(prompt=14_000 * second, generation=2_040 * second),
        preemptions=second // 50,
        evictions=91 * second,
        running=16,
        waiting=3,
    )
    torch = TorchRecord(
        v=1,
        ts_unix_ns=ts_unix_ns + 3_000_000,
        pid=4242,
        replica="llama-8b-0",
        engine="0",
        interval_s=1.0,
        model_name="meta-llama/Llama-3-8B",
        rank=0,
        tp_rank=0,
        pp_rank=0,
        uuid="GPU-6a5b1c9e-0d5c-7f3e-9f43-2f1e0d9c8b7a",
        allocated_bytes=134_000_000_000 + 4_096 * second,
        allocated_peak_bytes=134_800_000_000,
        reserved_bytes=135_260_000_000,
        active_bytes=134_000_100_000 + 4_096 * second,
        inactive_split_bytes=212_000_768,
        alloc_retries=0,
        ooms=0,
        device_free_bytes=14_070_972_416,
        device_total_bytes=150_109_880_320,
        weights_bytes=16_060_522_496,
        kv_pool_bytes=117_608_284_160,
        graph_pool_bytes=331_350_016,
        largest_free_block_bytes=20_971_520,
    )
    engine = EngineRecord(
        v=1,
        ts_unix_ns=ts_unix_ns + 5_000_000,
        pid=4242,
        replica="llama-8b-0",
        engine="0",
        interval_s=30.0,
        model_name="meta-llama/Llama-3-8B",
        role="EngineCore",
        start_unix_ns=1_795_956_000_000_000_000,
        vllm_version="0.25.1",
        plugin_version="0.1.0",
        status="active",
        capabilities={"block_tables": True, "free_queue": True, "memory_snapshot": False},
        block_size=16,
        num_gpu_blocks=56_080,
        max_model_len=8_192,
        gpu_memory_utilization=0.9,
        cache_dtype="auto",
        enable_prefix_caching=True,
        tensor_parallel_size=1,
        errors=0,
        dropped_records=0,
        plugin_seconds=0.01 * second,
    )
    return [kv, torch, engine] if second % 30 == 0 else [kv, torch]


if __name__ == "__main__":
    main()
