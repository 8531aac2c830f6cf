"""Three nodes and three vLLM servers in one Prometheus: what the boards are tried on.

| job | what |
| --- | --- |
| fake | the exporter over a fake driver of 8 GPUs; two engines that write a trace all the time |
| exhaustion | a recording, standing still while one H200's KV pool is full |
| tp4 | a recording of four H200 under one engine, standing still while a co-tenant is there |
| vllm | /metrics of vLLM servers: `new` (one engine), `pair` (two), `old` (one, with old names) |
| pods | which pod has the GPUs of fake's engines; the exporter there is in a pod of its own |
"""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from exporter.clock import SystemClock
from exporter.recordings import bundled_path
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
from tests.daemon import running
from tests.dashboards.known_series import RULES
from tests.dashboards.vllm_server import vllm_server
from tests.fake_nvml import FakeGpu, FakeMig, FakeProcess, Scenario, environment
from tests.prometheus import Prometheus, configured_prometheus

GB = 10**9
SLICES = [FakeMig(uuid="MIG-1", gpu_instance=2), FakeMig(uuid="MIG-2", gpu_instance=3)]
UUIDS = [f"GPU-0000000{index}-0000-4000-8000-000000000000" for index in range(8)]
BLUE_PIDS, GREEN_PID, STRANGER_PID = (3_999_991, 3_999_992), 3_999_993, 3_999_994  # none is here

CONFIG = """
global: {{scrape_interval: 500ms, evaluation_interval: 500ms}}
rule_files: ["{rules}/*.yml"]
scrape_configs:
  - job_name: fake
    static_configs: [{{targets: ["{fake}"], labels: {{namespace: serving, pod: blue-0}}}}]
  - job_name: exhaustion
    static_configs: [{{targets: ["{exhaustion}"]}}]
  - job_name: tp4
    static_configs: [{{targets: ["{tp4}"]}}]
  - job_name: vllm
    static_configs:
      - {{targets: ["{vllm}"], labels: {{instance: new, __metrics_path__: /new}}}}
      - targets: ["{vllm}"]
        labels: {{instance: pair, __metrics_path__: /pair, namespace: serving, pod: blue-0}}
      - {{targets: ["{vllm}"], labels: {{instance: old, __metrics_path__: /old}}}}
  - job_name: pods
    metrics_path: /pods
    static_configs: [{{targets: ["{vllm}"], labels: {{namespace: monitoring, pod: exporter-7}}}}]
"""


def machine() -> Scenario:
    """Engine blue on GPUs 0 and 1, green on 2, a process of none on 3; 6 is cut in two slices."""
    held = {0: (BLUE_PIDS[0], 90), 1: (BLUE_PIDS[1], 91), 2: (GREEN_PID, 60), 3: (STRANGER_PID, 7)}
    gpus = []
    for index, uuid in enumerate(UUIDS):
        processes = [FakeProcess(pid, gb * GB) for at, (pid, gb) in held.items() if at == index]
        used_bytes = sum(process.used_bytes or 0 for process in processes)
        bus = f"00000000:{index + 16:02X}:00.0"
        gpus.append(
            FakeGpu(
                uuid=uuid,
                bus=bus,
                memory_used=used_bytes,
                processes=processes,
                nvlinks=[1, 1],
                nvlink_transmit_kib=5_000,
                nvlink_receive_kib=7_000,
                nvlink_replay_errors=3,
                mig_mode=int(index == 6),
                migs=SLICES if index == 6 else (),
                xid_events=[79] if index == 7 else None,
                gpm_dram=81.5,
                gpm_sm=40.0,
                gpm_tensor=12.5,
            )
        )
    return Scenario(gpus=gpus)


def trace_records(step: int) -> Iterator[KvRecord | TorchRecord | EngineRecord]:
    """What both engines write at a step: states stand still, counters grow."""
    blue: dict[str, Any] = {"replica": "blue", "pid": BLUE_PIDS[0]}
    green: dict[str, Any] = {"replica": "green", "pid": GREEN_PID}
    always: dict[str, Any] = {
        "v": 1,
        "ts_unix_ns": SystemClock().unix_ns(),
        "engine": "0",
        "interval_s": 2.0,
        "model_name": "m",
    }
    for who, free in ((blue, 300), (green, 30)):
        yield EngineRecord(
            **always, **who, role="engine", status="active", block_size=16, num_gpu_blocks=1001
        )
        yield KvRecord(
            **always,
            **who,
            block_size=16,
            page_table=PageTable(
                num_pages=800, contiguous_pages=300, descending_pages=90, tables=20
            ),
            blocks=Blocks(total=1001, num_free=free, cached=20, shared=5),
            free_runs=FreeRuns(runs=12, longest_run_blocks=9, queue_walked=128, queue_contiguous=3),
            slots=Slots(allocated=12_800, used=12_650),
            prefix_cache=PrefixCache(query_tokens=400 * step, hit_tokens=100 * step),
            tokens=ScheduledTokens(prompt=300 * step, generation=50 * step),
            preemptions=step,
            evictions=7 * step,
            running=20,
            waiting=3,
        )
    for who, rank, pid, reserved in (
        (blue, 0, BLUE_PIDS[0], 80),
        (blue, 1, BLUE_PIDS[1], 81),
        (green, 0, GREEN_PID, 50),
    ):
        yield TorchRecord(
            **always,
            **{**who, "pid": pid},
            rank=rank,
            uuid=UUIDS[rank] if who is blue else UUIDS[2],
            allocated_bytes=(reserved - 2) * GB,
            allocated_peak_bytes=(reserved - 1) * GB,
            reserved_bytes=reserved * GB,
            active_bytes=(reserved - 2) * GB,
            inactive_split_bytes=GB,
            alloc_retries=0,
            ooms=0,
            device_free_bytes=30 * GB,
            device_total_bytes=150 * GB,
            weights_bytes=16 * GB,
            kv_pool_bytes=1001 * 20_000_000,
            graph_pool_bytes=GB,
            graph_pool_allocated_bytes=GB,
            largest_free_block_bytes=GB // 2,
        )


@contextmanager
def writing_trace(path: Path) -> Iterator[None]:
    """Both engines append to one trace file every half second until the block ends."""
    stop = threading.Event()

    def write() -> None:
        step = 1
        while True:
            lines = b"".join(msgspec.json.encode(r) + b"\n" for r in trace_records(step))
            with path.open("ab") as file:
                file.write(lines)
            if stop.wait(0.5):
                return
            step += 1

    writer = threading.Thread(target=write, name="trace-writer")
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()


@contextmanager
def staged(library: Path, directory: Path) -> Iterator[Prometheus]:
    """All of it, scraped twice a second, with the recording rules."""
    scenario, trace = directory / "scenario", directory / "trace.jsonl"
    machine().write(scenario)
    with ExitStack() as stack:
        stack.enter_context(writing_trace(trace))
        fake = stack.enter_context(
            running(
                "serve",
                *("--trace.path", str(trace), "--nvml.gpm"),
                environment=environment(library, scenario),
            )
        )
        replays = {
            job: stack.enter_context(
                running(
                    "serve",
                    *("--replay", str(bundled_path(name)), "--replay.freeze-at", seconds),
                )
            ).address
            for job, name, seconds in (
                ("exhaustion", "h200_exhaustion", "25"),
                ("tp4", "tp4_cotenant", "36.2"),
            )
        }
        vllm = stack.enter_context(vllm_server(UUIDS[:3]))
        config = CONFIG.format(rules=RULES, fake=fake.address, vllm=vllm, **replays)
        yield stack.enter_context(configured_prometheus(config, directory))
