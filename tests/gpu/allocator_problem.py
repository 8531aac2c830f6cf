"""Plants a harmless gap, an allocator problem and a co-tenant on a GPU, and asks the doctor.

Usage: python -m tests.gpu.allocator_problem OUT_DIRECTORY. A torch program stands in for the
engine: it writes `kv` records of an unchanging pool, and its allocator is read by the plugin's own
probe. Prints the findings in each phase, and how soon the daemon told the co-tenant; needs torch.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from exporter.plugin.allocator_probe import AllocatorProbe
from exporter.plugin.facts import Identity
from exporter.records.trace import Blocks, KvRecord
from tests.daemon import Daemon, running
from tests.gpu.anonymous import anonymous

GIB = 2**30
HELD_GIB = 16
PHASES = ("harmless gap", "retries")


class Worker:
    """As much of vLLM's worker as the probe needs."""

    def __init__(self, device: Any) -> None:
        self.device = device


def engine(out: Path) -> None:
    """Run until the file `phase` says "end"."""
    import torch  # type: ignore[import-not-found,unused-ignore]

    def take(gib: float) -> Any:
        return torch.empty(int(gib * GIB), dtype=torch.uint8, device="cuda")

    held = take(HELD_GIB)
    worker = Worker(torch.device("cuda:0"))
    start_unix_ns = time.time_ns()
    who = Identity(
        replica="stand-in", engine="0", role="worker", rank=0, pid=os.getpid(),
        model_name="none", start_unix_ns=start_unix_ns,
    )  # fmt: skip
    probe = AllocatorProbe(worker, who, {}, 1.0)
    with (out / "trace.jsonl").open("wb", buffering=0) as trace:
        while (phase := (out / "phase").read_text()) != "end":
            if phase == "harmless gap":
                blocks = [take(1.5), take(1.5)]
                blocks.clear()
            elif phase == "retries":
                torch.cuda.empty_cache()
                limit_bytes = torch.cuda.memory_reserved() + 4 * GIB
                total_bytes = torch.cuda.mem_get_info()[1]
                torch.cuda.set_per_process_memory_fraction(limit_bytes / total_bytes)
                blocks = [take(1.5), take(1.5)]
                blocks.clear()
                blocks.append(take(3.5))
                blocks.clear()
            kv = KvRecord(
                v=1, ts_unix_ns=time.time_ns(), pid=os.getpid(), replica="stand-in", engine="0",
                interval_s=1.0, blocks=Blocks(total=1001, num_free=500), block_size=16,
            )  # fmt: skip
            for record in (kv, *probe.tick()):
                trace.write(msgspec.json.encode(record) + b"\n")
            time.sleep(0.25)
    del held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    out: Path = parser.parse_args().out
    phase = out / "phase"
    phase.write_text("start")
    program = subprocess.Popen(
        [sys.executable, "-m", "tests.gpu.allocator_problem_engine", str(out)]
    )
    try:
        _play(out, phase)
    finally:
        phase.write_text("end")
        program.wait(30)


def _play(out: Path, phase: Path) -> None:
    flags = ("--nvml.interval", "100ms", "--trace.path", str(out / "trace.jsonl"))
    with running("serve", *flags) as daemon:
        daemon.wait_for(lambda samples: any("vllm_torch_reserved" in series for series in samples))
        for name in PHASES:
            phase.write_text(name)
            time.sleep(3)
            _tell(name, daemon, "12s", out)
        phase.write_text("quiet")
        time.sleep(2)
        cotenant = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("cotenant.py")), "7", "0", "16"],
            stdout=(out / "cotenant.txt").open("w"),
        )
        daemon.wait_for_log(re.compile("conflict co_tenant"))
        told_s = time.time()
        time.sleep(1)
        _tell("co-tenant", daemon, "8s", out)
        held_s = float((out / "cotenant.txt").read_text().split()[0])
        print(
            f"co-tenant pid {cotenant.pid}: told {told_s - held_s:+.3f} s after it held its memory"
        )
        print(anonymous(daemon.get("/api/conflicts")[1].decode()))
        print(anonymous("\n".join(line for line in daemon.log if "conflict" in line)))
        samples = daemon.samples()
        print({key: value for key, value in samples.items() if key.startswith("process_resident")})
        print(Path(f"/proc/{daemon.process.pid}/status").read_text().split("VmHWM")[1][:400])
        cotenant.wait(60)


def _tell(name: str, daemon: Daemon, duration: str, out: Path) -> None:
    command = [sys.executable, "-m", "exporter", "doctor", "--url", f"http://{daemon.address}"]
    result = subprocess.run(
        [*command, "--for", duration, "--json"], capture_output=True, text=True, check=False
    )
    (out / f"doctor_{name.replace(' ', '_')}.json").write_text(anonymous(result.stdout))
    print(f"--- {name}: exit code {result.returncode} {result.stderr.strip()}", flush=True)
    for finding in json.loads(result.stdout or '{"findings": []}')["findings"]:
        print(finding["verdict"], finding["cause"], anonymous(str(finding["evidence"])), flush=True)


if __name__ == "__main__":
    main()
