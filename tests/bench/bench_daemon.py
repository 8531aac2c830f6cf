"""CPU, scrape time and memory of the daemon against nvitop-exporter, alternating in one run.

Both sample 8 GPUs × 8 processes of the stand-in driver every 500 ms and are scraped once a second.
Usage: python -m tests.bench.bench_daemon --peer PATH_OF_NVITOP_EXPORTER [--seconds S] [--rounds N]
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.bench.peers import Peer
from tests.fake_nvml import FakeGpu, FakeProcess, Scenario, build, environment

GPUS = 8
PROCESSES = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", required=True, help="the nvitop-exporter program")
    parser.add_argument("--seconds", type=float, default=20.0, help="length of a round")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        pids = [_sleeper(stack) for _ in range(GPUS * PROCESSES)]
        scenario = directory / "scenario"
        _scenario(pids).write(scenario)
        variables = environment(build(directory), scenario)
        ours = Peer(
            "vllm-memory-exporter",
            [sys.executable, "-m", "exporter", "serve", "--web.listen-address", "127.0.0.1:{port}"],
            variables,
        )
        peer = Peer(
            "nvitop-exporter", [arguments.peer, "--port", "{port}", "--interval", "0.5"], variables
        )
        for turn in range(arguments.rounds):
            for exporter in (ours, peer):
                print(f"round {turn + 1}: {exporter.name}", file=sys.stderr)
                exporter.measure(arguments.seconds)
    print(f"{GPUS} GPUs x {PROCESSES} processes, 500 ms, {arguments.rounds} rounds, medians")
    for exporter in (ours, peer):
        print(exporter.figures.line(exporter.name))
    cpu = statistics.median(ours.figures.cpu_ratio) / statistics.median(peer.figures.cpu_ratio)
    scrape = statistics.median(ours.figures.scrape_ms) / statistics.median(peer.figures.scrape_ms)
    print(f"ratio ours / peer: CPU {cpu:.3f} (budget 0.25, aim 0.1)   scrape p50 {scrape:.3f}")


def _sleeper(stack: ExitStack) -> int:
    process = subprocess.Popen(["sleep", "3600"])
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process.pid


def _scenario(pids: list[int]) -> Scenario:
    gpus = [
        FakeGpu(
            uuid=f"GPU-{index:08x}-0000-0000-0000-000000000000",
            bus=f"00000000:{index + 16:02X}:00.0",
            memory_used=80_000_000_000 + PROCESSES * 1_000_000_000,
            processes=[
                FakeProcess(pid, 10_000_000_000 + slot)
                for slot, pid in enumerate(pids[index * PROCESSES : (index + 1) * PROCESSES])
            ],
        )
        for index in range(GPUS)
    ]
    return Scenario(gpus=gpus)


if __name__ == "__main__":
    main()
