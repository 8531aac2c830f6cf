"""All of NVML on a machine with a GPU, beside a load whose traffic is known, against nvidia-smi.

Usage: python -m tests.gpu.nvml_complete OUT_DIRECTORY [--fault] [--rehearse]. Takes four minutes;
needs torch. Writes report.json, scrapes of a daemon at 500 ms and at 100 ms under load, what
nvidia-smi said, and a recording of 25 s with GPM, identifiers replaced. --fault: also has a kernel
of its own read a wrong address, for an Xid error. --rehearse: stand-in driver, idle phases, nothing
to compare with.
"""

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pynvml

from exporter.views.metrics.table import FAMILIES
from tests.daemon import Daemon, running, samples_of
from tests.fake_nvml import FakeGpu, Scenario, build, environment
from tests.gpu.anonymous import anonymous
from tests.gpu.smi_details import details_of, smi_query

HERE = Path(__file__).parent
PHASES = ("idle:10", "copy:25", "to_gpu:12", "from_gpu:12", "matmul:15")
PEER_PHASES = ("to_peer:12",)
SHORT_PHASES = ("copy:20", "matmul:20")
RECORDED_PHASES = ("idle:3", "copy:8", "matmul:6")
SCRAPE_EVERY_S = 0.25
SETTLED_AFTER_S = 3.0  # of a phase: a window of one second lies in it as a whole then
RATES = {
    "copy": ("gpu_dram_bandwidth_utilization_ratio", "dram"),
    "to_gpu": ("gpu_pcie_receive_bytes_per_second", None),
    "from_gpu": ("gpu_pcie_transmit_bytes_per_second", None),
    "to_peer": ("gpu_nvlink_transmit_bytes_per_second", None),
}
Scrape = tuple[float, dict[str, float]]


class Run:
    """Where the output goes, and what runs the daemon and the load."""

    def __init__(self, out: Path, is_rehearsal: bool) -> None:
        self.out = out
        self.is_rehearsal = is_rehearsal
        self.variables: Mapping[str, str] = {}
        if is_rehearsal:
            scenario = out / "scenario"
            gpu = FakeGpu(uuid="GPU-00000000-0000-0000-0000-00000000000a", gpm_dram=53, gpm_sm=66)
            Scenario(gpus=[gpu]).write(scenario)
            self.variables = environment(build(out), scenario)

    def load(self, name: str, phases: tuple[str, ...]) -> subprocess.Popen[bytes]:
        """Start the load; its phases are told in NAME.jsonl."""
        if self.is_rehearsal:
            phases = tuple(f"idle:{float(p.partition(':')[2]) / 4}" for p in phases)
        command = [sys.executable, str(HERE / "known_load.py"), *phases]
        return subprocess.Popen(command, stdout=(self.out / f"{name}.jsonl").open("w"))

    def phases(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.out / f"{name}.jsonl").read_text().splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--fault", action="store_true", help="provoke an Xid error")
    parser.add_argument("--rehearse", action="store_true", help="with the stand-in driver")
    arguments = parser.parse_args()
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    run = Run(out, arguments.rehearse)
    report: dict[str, Any] = {"rehearsal": run.is_rehearsal}
    for part in (_at_500_ms, _at_100_ms, _recording):
        try:
            report[part.__name__.strip("_")] = part(run, arguments.fault)
        except Exception as exc:  # noqa: BLE001 (what one part shows is not lost by another's end)
            report[part.__name__.strip("_")] = {"failed": repr(exc)}
        (out / "report.json").write_text(anonymous(json.dumps(report, indent=1)))
    print((out / "report.json").read_text())


def _at_500_ms(run: Run, is_faulty: bool) -> dict[str, Any]:
    with running("serve", "--nvml.gpm", environment=run.variables) as daemon:
        _wait_for_lanes(daemon)
        report: dict[str, Any] = {"against_nvidia_smi": _against_smi(run, daemon)}
        scrapes, text = _scraped(run, daemon, "load_500ms", _all_phases(run))
        (run.out / "scrape_500ms.txt").write_text(anonymous(text))
        report["families"] = _families(text)
        report["rates"] = [_rates(run, phase, scrapes) for phase in run.phases("load_500ms")]
        report["energy"] = _energy(scrapes)
        report["lanes"] = _lanes(daemon)
        if is_faulty and not run.is_rehearsal:
            report["fault"] = _fault(daemon)
        report["release"] = _release(daemon)
        report["log"] = daemon.log
    return report


def _at_100_ms(run: Run, _is_faulty: bool) -> dict[str, Any]:
    flags = ("--nvml.gpm", "--nvml.interval", "100ms")
    with running("serve", *flags, environment=run.variables) as daemon:
        _wait_for_lanes(daemon)
        began = _lanes(daemon)["cpu_seconds"], time.monotonic()
        _scrapes, text = _scraped(run, daemon, "load_100ms", SHORT_PHASES)
        (run.out / "scrape_100ms.txt").write_text(anonymous(text))
        lanes = _lanes(daemon)
        share = (lanes["cpu_seconds"] - began[0]) / (time.monotonic() - began[1])
        return {"lanes": lanes, "cpu_share_with_four_scrapes_a_second": share}


def _recording(run: Run, _is_faulty: bool) -> dict[str, Any]:
    path = run.out / "h200_complete.jsonl"
    path.unlink(missing_ok=True)
    record = subprocess.Popen(
        [sys.executable, "-m", "exporter", "record", "--nvml.gpm", "--output", str(path)],
        env={**os.environ, **run.variables},
    )
    time.sleep(2)
    load = run.load("load_recorded", RECORDED_PHASES)
    code = load.wait(120)
    time.sleep(4)
    record.send_signal(signal.SIGTERM)
    record.wait(30)
    text = anonymous(path.read_text())
    path.write_text(text)
    kinds = re.findall(r'^{"type":"(\w+)"', text, re.MULTILINE)
    return {"load": code, "lines": {kind: kinds.count(kind) for kind in sorted(set(kinds))}}


def _wait_for_lanes(daemon: Daemon) -> None:
    """Until the fast lane, the slow one and GPM have each told something."""
    names = ("gpu_memory_used_bytes", "gpu_pcie_link_lanes", "gpu_sm_utilization_ratio")
    daemon.wait_for(lambda samples: all(_of(samples, name) for name in names))


def _all_phases(run: Run) -> tuple[str, ...]:
    if run.is_rehearsal:
        return PHASES
    pynvml.nvmlInit()
    count = pynvml.nvmlDeviceGetCount()
    pynvml.nvmlShutdown()
    return (*PHASES, *(PEER_PHASES if count > 1 else ()), "idle:6")


def _scraped(
    run: Run, daemon: Daemon, name: str, phases: tuple[str, ...]
) -> tuple[list[Scrape], str]:
    """Scrapes while the load runs, and the text of one after a third of it: during the copies."""
    load = run.load(name, phases)
    scrapes: list[Scrape] = []
    texts: list[str] = []
    while load.poll() is None:
        texts.append(daemon.get("/metrics")[1].decode())
        scrapes.append((time.time(), samples_of(texts[-1])))
        time.sleep(SCRAPE_EVERY_S)
    if load.returncode:
        raise RuntimeError(f"the load ended with {load.returncode}")
    return scrapes, texts[len(texts) // 3]


def _against_smi(run: Run, daemon: Daemon) -> dict[str, Any]:
    """Ours beside nvidia-smi's figures while ours do not move: those that differ, and how many."""
    if run.is_rehearsal:
        return {}
    for _ in range(5):
        before = daemon.samples()
        xml = smi_query()
        time.sleep(6)  # a reading of the slow lane lies in between
        after = daemon.samples()
        theirs = details_of(xml)
        pairs = {
            f"{name} of GPU {index}": (ours, figure)
            for index, figures in enumerate(theirs)
            for name, figure in figures.items()
            if (ours := _figure(after, name, index)) == _figure(before, name, index)
        }
        (run.out / "nvidia_smi.xml").write_text(anonymous(xml))
        if len(pairs) == sum(map(len, theirs)):
            break
    differing = {
        name: pair
        for name, pair in pairs.items()
        if pair[0] is None or abs(pair[0] - pair[1]) > (2**20 if "bar1" in name else 0)
    }
    return {"compared": len(pairs), "differing": differing}


def _figure(samples: dict[str, float], name: str, index: int) -> float | None:
    name, _, label = name.rstrip("]").partition("[")
    values = [
        value
        for series, value in _of(samples, name).items()
        if (f'device="cuda:{index}"' in series and f'"{label}"' in series) or (not label
        and f'device="cuda:{index}"' in series)
    ]  # fmt: skip
    return values[0] if len(values) == 1 else None


def _of(samples: dict[str, float], name: str) -> dict[str, float]:
    return {series: v for series, v in samples.items() if series.partition("{")[0] == name}


def _families(text: str) -> dict[str, Any]:
    told = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    ours = [family.name for family in FAMILIES if family.name.startswith("gpu_")]
    return {
        "present": [name for name in ours if name in told],
        "absent": [name for name in ours if name not in told],
        "capabilities": {
            series.partition('call="')[2].rstrip('"}'): value
            for series, value in samples_of(text).items()
            if "_capability{" in series
        },
    }


def _rates(run: Run, phase: dict[str, Any], scrapes: list[Scrape]) -> dict[str, Any]:
    """The figure that goes with a phase, beside what the load measured itself."""
    within = [
        samples
        for at_s, samples in scrapes
        if phase["began"] + SETTLED_AFTER_S <= at_s <= phase["ended"] - 1
    ]
    medians = {
        name: statistics.median(values)
        for name in sorted({series for samples in within for series in samples})
        if "_ratio{" in name or "_per_second{" in name
        if "cuda:0" in name and not name.startswith("gpu_memory")
        and (values := [samples[name] for samples in within if name in samples])
    }  # fmt: skip
    told = {**phase, "scrapes": len(within), "medians": medians}
    if phase["phase"] in RATES and not run.is_rehearsal:
        name, unit = RATES[phase["phase"]]
        ours = next((value for series, value in medians.items() if series.startswith(name)), None)
        if ours is not None:
            ours *= _peak_bandwidth() if unit == "dram" else 1
            told["ours_over_the_loads"] = ours / phase["bytes_per_second"]
    return told


def _peak_bandwidth() -> float:
    """Of GPU 0's memory, in bytes a second: two transfers a cycle on every wire of the bus."""
    pynvml.nvmlInit()
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        hertz = pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_MEM) * 1e6
        return float(2 * hertz * pynvml.nvmlDeviceGetMemoryBusWidth(handle) / 8)
    finally:
        pynvml.nvmlShutdown()


def _energy(scrapes: list[Scrape]) -> dict[str, float]:
    """The counter's growth between its first and last change, beside power integrated meanwhile."""
    energies = [(at_s, _sum(samples, "gpu_energy_joules_total")) for at_s, samples in scrapes]
    changes = [
        (now_s, energy) for (_, before), (now_s, energy) in pairwise(energies) if energy != before
    ]
    if len(changes) < 2:
        return {}
    (began_s, began_j), (ended_s, ended_j) = changes[0], changes[-1]
    powers = [(at_s, _sum(samples, "gpu_power_watts")) for at_s, samples in scrapes]
    integral = sum(
        (later_s - at_s) * (watts + later_watts) / 2
        for (at_s, watts), (later_s, later_watts) in pairwise(powers)
        if began_s <= at_s and later_s <= ended_s
    )
    counted = ended_j - began_j
    return {"seconds": ended_s - began_s, "counted_joules": counted, "integrated_joules": integral,
            "ratio": counted / integral if integral else 0.0}  # fmt: skip


def _sum(samples: dict[str, float], name: str) -> float:
    return sum(_of(samples, name).values())


def _lanes(daemon: Daemon) -> dict[str, Any]:
    """Cost and health of each lane, and of the whole process."""
    samples = daemon.samples()
    prefix = "vllm_memory_exporter_"

    def by_source(name: str) -> dict[str, float]:
        found = _of(samples, prefix + name)
        return {series.partition('source="')[2].rstrip('"}'): v for series, v in found.items()}

    seconds, reads = (by_source(f"sample_duration_seconds_{end}") for end in ("sum", "count"))
    return {
        "mean_read_ms": {name: 1000 * seconds[name] / reads[name] for name in reads},
        "reads": reads,
        "up": by_source("source_up"),
        "missed": by_source("missed_samples_total"),
        "errors": _of(samples, prefix + "source_errors_total"),
        "durations": {
            series: v
            for series, v in samples.items()
            if series.startswith(prefix + "sample_duration_seconds_bucket")
        },
        "cpu_seconds": samples["process_cpu_seconds_total"],
        "resident_bytes": samples["process_resident_memory_bytes"],
    }


def _fault(daemon: Daemon) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "illegal_access.py")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    time.sleep(3)
    return {
        "said": (ended.returncode, ended.stdout, ended.stderr),
        "xid_errors": _of(daemon.samples(), "gpu_xid_errors_total"),
    }


def _release(daemon: Daemon) -> dict[str, Any]:
    """Open files of the driver before SIGUSR1, after it, and after the second one."""
    files = [_driver_files(daemon)]
    daemon.process.send_signal(signal.SIGUSR1)
    daemon.wait_for(lambda samples: not _sum(samples, "gpu_up"))
    time.sleep(2)
    files.append(_driver_files(daemon))
    daemon.process.send_signal(signal.SIGUSR1)
    daemon.wait_for(lambda samples: _sum(samples, "gpu_up") > 0)
    _wait_for_lanes(daemon)
    files.append(_driver_files(daemon))
    return {"before": files[0], "released": files[1], "again": files[2]}


def _driver_files(daemon: Daemon) -> list[str]:
    directory = Path(f"/proc/{daemon.process.pid}/fd")
    targets = [os.readlink(path) for path in directory.iterdir() if path.is_symlink()]
    return sorted(target for target in targets if "nvidia" in target)


if __name__ == "__main__":
    main()
