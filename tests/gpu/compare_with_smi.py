"""Runs the daemon on a machine with a GPU beside a torch program and compares it with nvidia-smi.

Usage: python -m tests.gpu.compare_with_smi OUT_DIRECTORY [--seconds S]. Writes there the last
scrape under load (identifiers replaced), a recording of the whole time, and report.json; needs
torch.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from exporter.records.codec import decode_line, encode_line
from exporter.records.device import DeviceReading
from tests.daemon import Daemon, running
from tests.gpu.anonymous import anonymous

SMI_QUERY = "memory.total,memory.used,memory.free,memory.reserved,power.draw,temperature.gpu"
MIB = 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=150.0)
    arguments = parser.parse_args()
    out: Path = arguments.out
    seconds: float = arguments.seconds
    recording = out / "recording.jsonl"
    load = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("torch_load.py")), str(seconds)],
        stdout=(out / "load.txt").open("w"),
    )
    record = subprocess.Popen(
        [sys.executable, "-m", "exporter", "record", "--output", str(recording)]
    )
    with running("serve") as daemon:
        daemon.wait_for(lambda samples: _only(samples, "gpu_memory_used_bytes") is not None)
        rows = _compare(daemon, seconds, load)
        figures = _own_figures(daemon)
        (out / "scrape.txt").write_text(anonymous(rows["scrape"]))
    load.wait(60)
    record.terminate()
    record.wait(30)
    times_ns = _anonymise_recording(recording)
    gaps_ms = [(after - before) / 1e6 for before, after in pairwise(times_ns)]
    report = {
        "compared": len(rows["differences_mib"]),
        "moving_meanwhile": rows["moving"],
        "largest_difference_mib": max(rows["differences_mib"], default=None),
        "process_differences_mib": max(rows["process_differences_mib"], default=None),
        "power_difference_w_median": statistics.median(rows["power_differences_w"]),
        "temperature_difference_c_max": max(rows["temperature_differences_c"]),
        "sample_gap_ms": {
            "median": statistics.median(gaps_ms),
            "max": max(gaps_ms),
            "min": min(gaps_ms),
        },
        "own": figures,
    }
    (out / "report.json").write_text(json.dumps(report, indent=2))
    sys.stdout.write(json.dumps(report, indent=2) + "\n")


def _compare(daemon: Daemon, seconds: float, load: subprocess.Popen[bytes]) -> dict[str, Any]:
    rows: dict[str, Any] = {
        "differences_mib": [],
        "process_differences_mib": [],
        "power_differences_w": [],
        "temperature_differences_c": [],
        "moving": 0,
        "scrape": "",
    }
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s and load.poll() is None:
        before = daemon.samples()
        smi = _smi(f"--query-gpu={SMI_QUERY}")[0]
        apps = _smi("--query-compute-apps=pid,used_memory")
        time.sleep(0.6)  # one interval, so that a sample falls between the scrapes
        after = daemon.samples()
        used = _only(before, "gpu_memory_used_bytes"), _only(after, "gpu_memory_used_bytes")
        if used[0] is None or used[0] != used[1]:
            rows["moving"] += 1
            continue
        ours_mib = [
            (_only(after, f"gpu_memory_{part}_bytes") or 0) / MIB
            for part in ("total", "used", "free", "reserved")
        ]
        rows["differences_mib"].append(
            max(abs(ours - theirs) for ours, theirs in zip(ours_mib, smi[:4], strict=True))
        )
        rows["power_differences_w"].append(abs((_only(after, "gpu_power_watts") or 0) - smi[4]))
        rows["temperature_differences_c"].append(
            abs((_only(after, "gpu_temperature_celsius", 'sensor="gpu"') or 0) - smi[5])
        )
        for pid, used_mib in apps:
            ours = _only(after, "gpu_process_memory_used_bytes", f'pid="{pid:.0f}"')
            rows["process_differences_mib"].append(
                float("inf") if ours is None else abs(ours / MIB - used_mib)
            )
        if apps:
            rows["scrape"] = daemon.get("/metrics")[1].decode()
    return rows


def _smi(query: str) -> list[list[float]]:
    command = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [[float(word) for word in line.split(",")] for line in text.splitlines() if line.strip()]


def _only(samples: dict[str, float], name: str, label: str = "") -> float | None:
    found = [
        value
        for series, value in samples.items()
        if series.partition("{")[0] == name and label in series
    ]
    return found[0] if len(found) == 1 else None


def _own_figures(daemon: Daemon) -> dict[str, float]:
    return {
        series: value
        for series, value in daemon.samples().items()
        if re.match(r"process_(cpu|resident)|vllm_memory_exporter_(sample_duration|missed)", series)
    }


def _anonymise_recording(path: Path) -> list[int]:
    """Replace identifiers in the recording; times of its device readings."""
    lines = [decode_line(line) for line in path.read_bytes().splitlines()]
    path.write_text(anonymous("".join(encode_line(line).decode() for line in lines)))
    return [line.ts_unix_ns for line in lines if isinstance(line, DeviceReading) and line.devices]


if __name__ == "__main__":
    main()
