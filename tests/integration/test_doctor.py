"""`doctor`: what it prints and how it exits, on a daemon, a recording and this machine."""

import json
import re
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from exporter.recordings import bundled_path
from tests.daemon import run, running
from tests.fake_nvml import FakeGpu, FakeProcess, Scenario, environment
from tests.readings import blocks, kv, torch

GOLDEN = Path(__file__).parent.parent / "golden"
UUID = "GPU-0000000a-0000-0000-0000-000000000000"
CAUSES = {
    "kv_exhausted",
    "prefix_cache",
    "allocator",
    "co_tenant",
    "scattered_tables",
    "throttling",
    "blind_spot",
}


def verdicts(output: str) -> dict[str, str]:
    """Verdict by cause; the format of every finding is checked."""
    document = json.loads(output)
    found: dict[str, str] = {}
    for finding in document["findings"]:
        assert set(finding) == {"cause", "verdict", "evidence", "advice"}
        assert finding["cause"] in CAUSES
        assert finding["verdict"] in {"ok", "watch", "act"}
        assert finding["evidence"]
        assert all(isinstance(line, str) for line in finding["evidence"])
        assert bool(finding["advice"]) == (finding["verdict"] != "ok")
        found.setdefault(finding["cause"], finding["verdict"])
    for gap in document["not_judged"]:
        assert set(gap) == {"cause", "reason"}
        assert gap["cause"] in CAUSES
    return found


def test_a_recording_without_findings_is_exit_code_0() -> None:
    result = run("doctor", "--replay", str(GOLDEN / "large_pool_cut.jsonl"), "--json")
    assert (result.returncode, result.stderr) == (0, "")
    assert set(verdicts(result.stdout).values()) == {"ok"}


def test_a_recording_with_findings_is_exit_code_1_and_its_text_names_the_worst_first() -> None:
    result = run("doctor", "--replay", str(bundled_path("h200_exhaustion")))
    assert (result.returncode, result.stderr) == (1, "")
    assert re.findall(r"^(act|watch|ok) +(.+)$", result.stdout, re.MULTILINE)[:3] == [
        ("act", "kv exhausted"),
        ("watch", "co tenant"),
        ("ok", "allocator"),
    ]
    assert "      31 preemptions in this time\n" in result.stdout
    assert "   -> Give the engine more KV blocks" in result.stdout
    table_head = r"^ *time +prompt tok/s +gen tok/s +GPU % +memory GB +KV usage %"
    assert re.search(table_head, result.stdout, re.MULTILINE)


def test_a_part_of_a_recording_can_be_looked_at() -> None:
    path = str(bundled_path("tp4_cotenant"))
    result = run("doctor", "--replay", path, "--replay.freeze-at", "20", "--json")
    assert result.returncode == 0
    assert json.loads(result.stdout)["views"] == 41


def test_a_running_daemon_is_asked_over_http() -> None:
    path = str(bundled_path("h200_exhaustion"))
    with running("serve", "--replay", path, "--replay.freeze-at", "25") as daemon:
        result = run("doctor", "--url", f"http://{daemon.address}", "--for", "1s", "--json")
        bare = run("doctor", "--url", daemon.address, "--for", "100ms", "--json")
    assert (result.returncode, result.stderr) == (1, "")
    found = verdicts(result.stdout)
    assert (found["kv_exhausted"], found["co_tenant"]) == ("watch", "act")
    assert json.loads(result.stdout)["views"] == 1  # frozen: the same View again and again
    assert verdicts(bare.stdout) == found


def test_a_running_replay_is_looked_at_for_as_long_as_asked() -> None:
    with running("serve", "--replay", str(GOLDEN / "large_pool_cut.jsonl")) as daemon:
        daemon.wait_for(bool)
        result = run("doctor", "--url", daemon.address, "--for", "1500ms", "--json")
    document = json.loads(result.stdout)
    assert result.returncode in (0, 1)
    assert 2 <= document["views"] <= 4
    assert 0.4 <= document["last_unix_s"] - document["first_unix_s"] <= 2.5


def look(library: Path, tmp_path: Path, gpu: dict[str, Any], **worker: Any) -> dict[str, str]:
    """Verdicts of this machine: a GPU with one process of 8e9 bytes, an engine's worker."""
    scenario, trace = tmp_path / "scenario", tmp_path / "trace.jsonl"
    processes = [FakeProcess(pid=4_000_001, used_bytes=8_000_000_000)]
    fake = FakeGpu(uuid=UUID, memory_used=8_100_000_000, processes=processes, **gpu)
    Scenario(gpus=[fake]).write(scenario)
    now_s = time.time() - 1_800_000_000
    held = {"allocated_bytes": 4_000_000_000, "reserved_bytes": 7_000_000_000, **worker}
    records = [
        kv(now_s, blocks=blocks(25), model_name="llama", interval_s=60.0, preemptions=0),
        torch(now_s, uuid=UUID, interval_s=60.0, **held),
    ]
    trace.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records))
    result = run(
        "doctor", "--trace.path", str(trace), "--nvml.interval", "100ms", "--for", "1s", "--json",
        environment=environment(library, scenario),
    )  # fmt: skip
    found = verdicts(result.stdout)
    assert result.stderr == ""
    assert result.returncode == int(set(found.values()) != {"ok"})
    return found


def test_a_harmless_gap_of_3_gb_on_this_machine_is_no_finding(
    fake_nvml_library: Path, tmp_path: Path
) -> None:
    found = look(fake_nvml_library, tmp_path, {}, alloc_retries=0)
    assert found == dict.fromkeys(
        ("kv_exhausted", "co_tenant", "allocator", "throttling", "blind_spot"), "ok"
    )


@pytest.mark.parametrize(
    "worker",
    [
        {"alloc_retries": 2},
        {
            "inactive_split_bytes": 2_900_000_000,
            "device_free_bytes": 50_000_000,
            "allocated_peak_bytes": 4_200_000_000,
        },
    ],
    ids=["retries", "margin below 0"],
)
def test_an_allocator_problem_on_this_machine_is_found(
    fake_nvml_library: Path, tmp_path: Path, worker: dict[str, Any]
) -> None:
    assert look(fake_nvml_library, tmp_path, {}, **worker)["allocator"] in ("watch", "act")


def test_a_gpu_that_is_too_hot_is_found(fake_nvml_library: Path, tmp_path: Path) -> None:
    found = look(fake_nvml_library, tmp_path, {"event_reasons": 0x40}, alloc_retries=0)
    assert found["throttling"] == "act"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--url", "http://127.0.0.1:1"),
            r"--url: http://127\.0\.0\.1:1/api/view: Connection refused; is .* running there",
        ),
        (("--url", "ftp://here"), r"--url: that is not allowed; use a daemon's URL, for example"),
        (("--replay", "/nowhere.jsonl"), r"/nowhere\.jsonl: No such file or directory"),
        (("--replay", __file__), r".*test_doctor\.py: line 1: "),
        (("--replay", "/nowhere.jsonl", "--for", "3s"), r"--replay looks at a whole recording"),
        (("--no-nvml", "--for", "100ms"), r"saw neither a GPU nor an engine; run it where"),
        (("--for", "soon"), r"--for: 'soon' is not allowed; use a duration from 0\.1s to"),
    ],
    ids=["unreachable", "no URL", "no file", "no recording", "both", "nothing to see", "no time"],
)
def test_when_it_cannot_look_it_says_so_in_one_line_and_is_exit_code_2(
    arguments: tuple[str, ...], said: str
) -> None:
    result = run("doctor", *arguments, "--log.level", "error")
    assert (result.returncode, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert re.match(rf"vllm-memory-exporter: {said}", line), line


def test_a_server_that_is_no_daemon_of_this_version_is_told_in_one_line() -> None:
    with running("demo", "--replay.freeze-at", "1", "--web.telemetry-path", "/x/api/view") as other:
        result = run("doctor", "--url", f"http://{other.address}/x", "--for", "100ms")
        missing = run("doctor", "--url", f"http://{other.address}/y", "--for", "100ms")
    assert (result.returncode, missing.returncode) == (2, 2)
    assert "answers with no View of this version: JSON is malformed" in result.stderr
    assert "answers with status 404" in missing.stderr
    assert len(result.stderr.splitlines()) == len(missing.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", ["doctor", "processes"])
def test_a_name_that_steers_terminals_or_cannot_be_written_is_shown_harmless(
    tmp_path: Path, command: str
) -> None:
    path = tmp_path / "hostile.jsonl"
    text = bundled_path("tp4_cotenant").read_text()
    hostile = '"pid":2654,"name":"[bold]\\u001b[31mé\\r\\n"'
    path.write_text(text.replace('"pid":2654', hostile))
    arguments = ("--replay", str(path), "--replay.freeze-at", "36")
    result = run(command, *arguments, environment={"PYTHONIOENCODING": "ascii"})
    assert result.returncode == int(command == "doctor")
    assert result.stderr == ""
    assert "\x1b" not in result.stdout
    assert "[bold] [31m\\xe9" in result.stdout
