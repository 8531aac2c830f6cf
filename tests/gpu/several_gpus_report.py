"""What must hold after a run on several GPUs, printed as a table and written as JSON."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.gpu.scraper import labels
from tests.several_gpus import Sights, sights_of

MOST_UNATTRIBUTED = 0.001


class Check(NamedTuple):
    """`holds` None: only told, nothing is asked of it."""

    name: str
    holds: bool | None
    told: str


def report(
    known: Mapping[str, Any], recordings: Mapping[str, Path], last: Mapping[str, float], out: Path
) -> None:
    """Play the recordings and say what holds.

    Args: known: what the run itself knows. last: the daemon's last samples by series.
    """
    document: dict[str, Any] = {"known": dict(known)}
    for name, path in recordings.items():
        if path.exists():
            sights = sights_of(path)
            checks = [*_checks(sights, known), *(_live(known, last) if name == "sessions" else ())]
            document[name] = {"checks": [check._asdict() for check in checks]}
            document[name]["sights"] = _plain(sights)
            document[name]["doctor"] = _doctor(path)
            out.write_text(json.dumps(document, indent=1))
            _print(f"{name}: {sights.views} samples", checks)
            for finding in document[name]["doctor"]:
                print(f"  doctor: {finding['verdict']:<5} {finding['cause']}")
                for line in finding["evidence"]:
                    print(f"          {line}")
    sys.stdout.flush()


def _checks(sights: Sights, known: Mapping[str, Any]) -> Iterator[Check]:
    gpus, mode = known["gpus"], known["mode"]
    counts = [sights.gpus[number] for number in range(gpus)]
    yield Check("a row per GPU", set(counts) == {max(counts)} and counts[0] > 0, f"{counts}")
    wanted: list[list[int]] = [list(range(gpus))] if mode == "tp" else [[0]] * gpus
    told = [sorted(of) for of in sights.ranks.values()]
    used = [gpu for of in sights.ranks.values() for gpu in of.values()]
    is_apart = told == wanted and sorted(used) == list(range(gpus)) and not sights.wrong_pressures
    told_apart = f"{_plain(sights)['ranks']}; {sights.wrong_pressures} effective pressures wrong"
    yield Check("engines and ranks on their own GPUs", is_apart, told_apart)
    share = f"{sights.wrong_sums} of {sights.ledgers} wrong; fell back: {dict(sights.reasons)}"
    yield Check("ledgers sum to total", sights.ledgers > 0 and not sights.wrong_sums, share)
    ratios = sights.unattributed_ratio
    most = max(ratios.values(), default=1.0)
    shown = {number: f"{ratio:.5f}" for number, ratio in sorted(ratios.items())}
    yield Check(
        "unattributed ≤ 0.1 %", len(ratios) == gpus and most <= MOST_UNATTRIBUTED, f"{shown}"
    )
    pids = [(pid, primary) for pid, primary, _ in sights.tenants.values()]
    told_tenants = f"{list(sights.tenants.values())}, started {known.get('cotenant_pid')}"
    yield Check("the co-tenant is on GPU 1", pids == [(known.get("cotenant_pid"), 1)], told_tenants)
    usages = {"/".join(key): round(usage, 4) for key, usage in sights.usage_ratio.items()}
    is_full = bool(sights.preemptions) and all(sights.preemptions.values())
    yield Check(
        "KV blocks ran out", is_full, f"usage {usages}, preempted {_plain(sights)['preemptions']}"
    )
    for key, most_bytes in sights.imbalance_bytes.items():
        yield Check(f"largest imbalance of {'/'.join(key)}", None, f"{most_bytes}")


def _live(known: Mapping[str, Any], last: Mapping[str, float]) -> Iterator[Check]:
    """What the daemon's own expositions said."""
    told = f"{known['wrong_sums']} of {known['ledgers']} in {known['scrapes']} scrapes"
    yield Check("ledgers of expositions sum to total", not known["wrong_sums"], told)
    slowest = f"{known['failures']} failed, slowest {1000 * known['slowest_s']:.0f} ms"
    yield Check("every scrape was answered", not known["failures"], slowest)
    name = "vllm_memory_exporter_sample_duration_seconds"
    spent, count = (last.get(f'{name}_{what}{{source="nvml"}}', 0.0) for what in ("sum", "count"))
    if count:
        ms = 1000 * spent / count
        core = f"daemon {known['daemon_cpu_ratio']:.4f} of a core, {known['daemon_rss_mb']:.1f} MB"
        each = f"{ms:.3f} ms, {ms / known['gpus']:.3f} ms a GPU; {core}"
        yield Check("cost of an NVML sample", None, each)
    links = sorted({series.partition("{")[0] for series in last if series.startswith("gpu_nvlink")})
    yield Check("NVLink families", None, ", ".join(links) or "none")
    up = [labels(series)["device"] for series in last if series.startswith("gpu_up{")]
    yield Check("GPUs in the last exposition", len(up) == known["gpus"], f"{sorted(up)}")


def _doctor(recording: Path) -> list[dict[str, Any]]:
    """Findings of the program itself."""
    command = [sys.executable, "-m", "exporter", "doctor", "--replay", str(recording), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    try:
        findings: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    except (ValueError, KeyError):
        return [{"verdict": "error", "cause": "doctor", "evidence": [done.stderr[-500:]]}]
    return findings


def _plain(sights: Sights) -> dict[str, Any]:
    """As JSON can hold it."""
    return {
        name: {
            "/".join(key) if isinstance(key, tuple) else key: figure
            for key, figure in value.items()
        }
        if isinstance(value, dict)
        else value
        for name, value in vars(sights).items()
        if not name.startswith("_")
    }


def _print(heading: str, checks: list[Check]) -> None:
    print(heading)
    for check in checks:
        mark = {True: "holds", False: "FAILS", None: ""}[check.holds]
        print(f"  {mark:<6}{check.name:<38}{check.told}")
