"""Converts samples of a measured serving run into a recording that the exporter replays.

Knows the samples' three files (NVML, page tables, torch) and what stands in none of them: block
sizes, pids, the engine's settings. GPU identities, the replica's name and the pids that no sample
tells are invented. What no sample tells otherwise (slots, cached blocks, evictions, process names,
scheduled tokens by kind) is left out.

    python -m tests.tools.make_recording tp4_cotenant SAMPLES_DIR OUTPUT.jsonl

Cut-outs for tests name their own `--begin` and `--end`, in Unix seconds of the samples.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

import msgspec
from msgspec import Struct, field

from exporter.records.codec import RECORDING_VERSION, RecordingHeader, RecordingLine, encode_line
from exporter.records.device import (
    Device,
    DeviceFacts,
    DeviceMemory,
    DeviceReading,
    DeviceSample,
    ProcessMemory,
)
from exporter.records.trace import (
    SCHEMA_VERSION,
    Blocks,
    EngineRecord,
    FreeRuns,
    KvRecord,
    PageTable,
    PrefixCache,
    TorchRecord,
    TraceRecord,
)

DEVICE_INTERVAL_S = 0.5
TRACE_INTERVAL_S = 1.0
ENGINE_INTERVAL_S = 30.0
BLOCK_SIZE_TOKENS = 16
REPLICA = "vllm-0"
MODEL_NAME = "llama-3-8b-shape"


@dataclass(frozen=True, kw_only=True)
class Session:
    """One measured run: its files, and the facts that are not in them.

    Without `nvml_file` the device readings hold no GPU, and only pace the recording. `begin_ts` to
    `end_ts` (Unix seconds) is what they are cut to; trace records begin one interval earlier, so
    that the first reading meets a known state. One of `thinning` NVML lines a GPU is kept.
    `kv_pool_bytes` is the KV tensors of one rank; `scheduler_pid` owns the page tables.
    """

    nvml_file: str | None = None
    page_table_file: str
    torch_file: str | None = None
    session: str | None = None
    begin_ts: float
    end_ts: float
    thinning: int
    scheduler_pid: int
    num_gpu_blocks: int
    kv_pool_bytes: int
    tensor_parallel_size: int
    gpu_memory_utilization: float | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    note: str


SESSIONS = {
    "tp4_cotenant": Session(
        nvml_file="tp4_nvml_recording.jsonl",
        page_table_file="tp4_page_table_trace.jsonl",
        torch_file="tp4_torch_alloc.jsonl",
        begin_ts=1795960028.8,
        end_ts=1795960085.4,
        thinning=2,
        scheduler_pid=1471,
        num_gpu_blocks=6000,
        kv_pool_bytes=3_145_728_000,
        tensor_parallel_size=4,
        gpu_memory_utilization=0.85,
        max_model_len=8192,
        max_num_seqs=64,
        note="vLLM 0.25.1 on four H200, tensor parallel; another process takes 6 GiB of GPU 1",
    ),
    "tp2_cotenant": Session(
        nvml_file="tp2_nvml_recording.jsonl",
        page_table_file="tp2_page_table_trace.jsonl",
        torch_file="tp2_torch_alloc_rank0.jsonl",
        begin_ts=1795958074.0,
        end_ts=1795958146.4,
        thinning=2,
        scheduler_pid=910,
        num_gpu_blocks=6000,
        kv_pool_bytes=6_291_456_000,
        tensor_parallel_size=2,
        gpu_memory_utilization=0.85,
        max_model_len=8192,
        max_num_seqs=64,
        note="vLLM 0.25.1 on two H200, tensor parallel; torch of rank 0 only",
    ),
    "large_pool": Session(
        nvml_file="nvml_recording.jsonl",
        page_table_file="page_table_trace.jsonl",
        torch_file="torch_alloc.jsonl",
        session="a",
        begin_ts=1795956211.9,
        end_ts=1795956348.7,
        thinning=5,
        scheduler_pid=677,
        num_gpu_blocks=56080,
        kv_pool_bytes=56080 * 2_097_152,
        tensor_parallel_size=1,
        gpu_memory_utilization=0.9,
        max_model_len=8192,
        max_num_seqs=64,
        note="vLLM 0.25.1 on one H200: chat load, long prompts that fill the pool once, chat load",
    ),
    "small_pool": Session(
        page_table_file="page_table_trace.jsonl",
        session="b",
        begin_ts=1795956473.5,
        end_ts=1795956615.5,
        thinning=1,
        scheduler_pid=677,
        num_gpu_blocks=3000,
        kv_pool_bytes=3000 * 2_097_152,
        tensor_parallel_size=1,
        gpu_memory_utilization=0.9,
        max_model_len=8192,
        max_num_seqs=64,
        note="vLLM 0.25.1 on one H200, 3,000 blocks; 16, 32, 16 clients; page tables alone",
    ),
    "preemption": Session(
        nvml_file="nvml_recording_preemption.jsonl",
        page_table_file="page_table_trace.jsonl",
        torch_file="torch_alloc.jsonl",
        session="c",
        begin_ts=1795957238.9,
        end_ts=1795957260.3,
        thinning=5,
        scheduler_pid=594,
        num_gpu_blocks=3000,
        kv_pool_bytes=3000 * 2_097_152,
        tensor_parallel_size=1,
        max_model_len=4096,
        note="vLLM 0.25.1 on one H200, offline, a pool of 3,000 blocks: preemptions",
    ),
}


class NvmlLine(Struct, frozen=True):
    """One GPU at one moment: bytes, percent, mW, °C, MHz; `procs` are (pid, bytes)."""

    ts: float
    total: int
    used: int
    free: int
    reserved: int
    util_gpu: int
    util_mem: int
    power_mw: int
    temp_c: int
    sm_mhz: int
    mem_mhz: int
    procs: tuple[tuple[int, int], ...]
    gpu: int = 0


class FreeList(Struct, frozen=True):
    """The free blocks in hand-out order, and sorted by id."""

    pages: int
    queue_adj_up: int
    extents: int
    largest_extent: int


class PageTableLine(Struct, frozen=True):
    """The scheduler's state; `preempted`, `prompt_tokens`, `cached_tokens` are of this line."""

    ts: float
    reqs: int
    waiting: int
    pages: int
    adj_up: int
    adj_down: int
    free_pages: int
    preempted: int
    prompt_tokens: int
    cached_tokens: int
    session: str | None = None
    free: FreeList | None = None


class TorchLine(Struct, frozen=True):
    """torch.cuda.memory_stats() of one worker, in bytes and counts."""

    ts: float
    pid: int
    allocated: int = field(name="allocated_bytes.all.current")
    allocated_peak: int = field(name="allocated_bytes.all.peak")
    reserved: int = field(name="reserved_bytes.all.current")
    active: int = field(name="active_bytes.all.current")
    inactive_split: int = field(name="inactive_split_bytes.all.current")
    num_alloc_retries: int
    num_ooms: int
    session: str | None = None
    device: int = 0


def recording_lines(name: str, session: Session, samples: Path) -> Iterator[RecordingLine]:
    """The session's recording: its header, then readings and records in the order of their time."""
    readings = device_readings(session, samples)
    begin_ns, end_ns = readings[0].ts_unix_ns, readings[-1].ts_unix_ns
    records: list[TraceRecord] = [
        *kv_records(session, samples),
        *torch_records(session, samples),
        *engine_records(session, begin_ns, end_ns),
    ]
    trace_begin_ns = begin_ns - _ns(TRACE_INTERVAL_S)
    records = [record for record in records if trace_begin_ns < record.ts_unix_ns <= end_ns]
    yield RecordingHeader(
        v=RECORDING_VERSION,
        name=name,
        started_unix_ns=begin_ns,
        product_version=version("vllm-memory-exporter"),
        interval_s=DEVICE_INTERVAL_S,
        note=f"{session.note}; converted from measurements, identities invented",
    )
    # A record of the same nanosecond stands before the reading: it was known by then.
    yield from sorted(
        [*records, *readings],
        key=lambda line: (line.ts_unix_ns, isinstance(line, DeviceReading)),
    )


def device_readings(session: Session, samples: Path) -> Sequence[DeviceReading]:
    """One reading for each pass over the GPUs that is kept; its time is that of the last GPU."""
    if session.nvml_file is None:
        return pacing_readings(session)
    lines = msgspec.json.Decoder(NvmlLine).decode_lines((samples / session.nvml_file).read_bytes())
    by_gpu = [
        list(group)
        for _, group in groupby(sorted(lines, key=lambda line: line.gpu), lambda line: line.gpu)
    ]
    passes = [
        rows
        for rows in zip(*by_gpu, strict=True)
        if session.begin_ts <= rows[0].ts and rows[-1].ts <= session.end_ts
    ]
    return [
        DeviceReading(
            ts_unix_ns=_ns(rows[-1].ts),
            interval_s=DEVICE_INTERVAL_S,
            devices=tuple(device(row) for row in rows),
        )
        for rows in passes[:: session.thinning]
    ]


def pacing_readings(session: Session) -> Sequence[DeviceReading]:
    """Readings of no GPU, one each interval."""
    begin_ns, end_ns = _ns(session.begin_ts), _ns(session.end_ts)
    return [
        DeviceReading(ts_unix_ns=ts_unix_ns, interval_s=DEVICE_INTERVAL_S, devices=())
        for ts_unix_ns in range(begin_ns, end_ns + 1, _ns(DEVICE_INTERVAL_S))
    ]


def device(line: NvmlLine) -> Device:
    """One GPU of a reading, under its invented identity."""
    return Device(
        facts=DeviceFacts(
            index=line.gpu,
            uuid=uuid(line.gpu),
            name="NVIDIA H200",
            pci_bus_id=f"00000000:{0x1B + 0x20 * line.gpu:02X}:00.0",
            driver_version="580.159.04",
        ),
        sample=DeviceSample(
            memory=DeviceMemory(
                total_bytes=line.total,
                used_bytes=line.used,
                free_bytes=line.free,
                reserved_bytes=line.reserved,
            ),
            processes=tuple(ProcessMemory(pid=pid, used_bytes=used) for pid, used in line.procs),
            gpu_utilization_ratio=line.util_gpu / 100,
            memory_controller_utilization_ratio=line.util_mem / 100,
            power_watts=line.power_mw / 1000,
            temperatures_celsius={"gpu": line.temp_c},
            clocks_hertz={"sm": line.sm_mhz * 1e6, "memory": line.mem_mhz * 1e6},
        ),
    )


def kv_records(session: Session, samples: Path) -> Iterator[KvRecord]:
    """The scheduler's records; sums begin with the run, the free list is the last one taken."""
    decoder = msgspec.json.Decoder(PageTableLine)
    query_tokens = hit_tokens = preemptions = 0
    free_runs: FreeRuns | None = None
    for line in decoder.decode_lines((samples / session.page_table_file).read_bytes()):
        if line.session != session.session:
            continue
        query_tokens += line.prompt_tokens
        hit_tokens += line.cached_tokens
        preemptions += line.preempted
        if line.free is not None:
            free_runs = FreeRuns(
                runs=line.free.extents,
                longest_run_blocks=line.free.largest_extent,
                queue_walked=line.free.pages,
                queue_contiguous=min(line.free.queue_adj_up + 1, line.free.pages),
            )
        yield KvRecord(
            v=SCHEMA_VERSION,
            ts_unix_ns=_ns(line.ts),
            pid=session.scheduler_pid,
            replica=REPLICA,
            engine="0",
            interval_s=TRACE_INTERVAL_S,
            model_name=MODEL_NAME,
            block_size=BLOCK_SIZE_TOKENS,
            page_table=PageTable(
                num_pages=line.pages,
                contiguous_pages=line.adj_up + line.reqs,
                descending_pages=line.adj_down,
                tables=line.reqs,
            ),
            blocks=Blocks(total=session.num_gpu_blocks, num_free=line.free_pages),
            free_runs=free_runs,
            prefix_cache=PrefixCache(query_tokens=query_tokens, hit_tokens=hit_tokens),
            preemptions=preemptions,
            running=line.reqs,
            waiting=line.waiting,
        )


def torch_records(session: Session, samples: Path) -> Iterator[TorchRecord]:
    """The workers' records; a worker's rank is torch's index of its GPU."""
    if session.torch_file is None:
        return
    decoder = msgspec.json.Decoder(TorchLine)
    for line in decoder.decode_lines((samples / session.torch_file).read_bytes()):
        if line.session == session.session:
            yield TorchRecord(
                v=SCHEMA_VERSION,
                ts_unix_ns=_ns(line.ts),
                pid=line.pid,
                replica=REPLICA,
                engine="0",
                interval_s=TRACE_INTERVAL_S,
                model_name=MODEL_NAME,
                rank=line.device,
                tp_rank=line.device,
                pp_rank=0,
                uuid=uuid(line.device),
                allocated_bytes=line.allocated,
                allocated_peak_bytes=line.allocated_peak,
                reserved_bytes=line.reserved,
                active_bytes=line.active,
                inactive_split_bytes=line.inactive_split,
                alloc_retries=line.num_alloc_retries,
                ooms=line.num_ooms,
                kv_pool_bytes=session.kv_pool_bytes,
            )


def engine_records(session: Session, begin_ns: int, end_ns: int) -> Iterator[EngineRecord]:
    """The engine's facts, from `begin_ns` on every 30 s."""
    for ts_unix_ns in range(begin_ns, end_ns, _ns(ENGINE_INTERVAL_S)):
        yield EngineRecord(
            v=SCHEMA_VERSION,
            ts_unix_ns=ts_unix_ns,
            pid=session.scheduler_pid,
            replica=REPLICA,
            engine="0",
            interval_s=ENGINE_INTERVAL_S,
            model_name=MODEL_NAME,
            vllm_version="0.25.1",
            block_size=BLOCK_SIZE_TOKENS,
            num_gpu_blocks=session.num_gpu_blocks,
            max_model_len=session.max_model_len,
            max_num_seqs=session.max_num_seqs,
            gpu_memory_utilization=session.gpu_memory_utilization,
            cache_dtype="auto",
            enable_prefix_caching=True,
            tensor_parallel_size=session.tensor_parallel_size,
            pipeline_parallel_size=1,
            data_parallel_size=1,
        )


def uuid(index: int) -> str:
    """The invented UUID of a GPU, different from its first digits on."""
    return f"GPU-{index + 1:08x}-0000-4000-8000-{index + 1:012x}"


def _ns(seconds: float) -> int:
    """Nanoseconds; the samples' times have at most four decimals, a float holds no nine of them."""
    return round(seconds * 10_000) * 100_000


def main(arguments: Sequence[str]) -> None:
    """Write the recording of one session."""
    parser = argparse.ArgumentParser(description="convert samples into a recording")
    parser.add_argument("name", choices=SESSIONS)
    parser.add_argument("samples", type=Path, help="directory of the samples")
    parser.add_argument("output", type=Path, help="recording to write (.jsonl)")
    parser.add_argument("--begin", type=float, help="first moment, instead of the session's")
    parser.add_argument("--end", type=float, help="last moment, instead of the session's")
    options = parser.parse_args(arguments)
    session = SESSIONS[options.name]
    session = replace(
        session,
        begin_ts=session.begin_ts if options.begin is None else options.begin,
        end_ts=session.end_ts if options.end is None else options.end,
    )
    lines = recording_lines(options.name, session, options.samples)
    options.output.write_bytes(b"".join(map(encode_line, lines)))


if __name__ == "__main__":
    main(sys.argv[1:])
