"""Facts of processes: pids from an invented /proc, launches of real processes."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from exporter.sources.process_facts import LocalProcesses

HOST, CONTAINER = "pid:[4026531836]", "pid:[4026532777]"


def proc(root: Path, namespace: str = HOST) -> Path:
    (root / "self" / "ns").mkdir(parents=True)
    (root / "self" / "ns" / "pid").symlink_to(namespace)
    return root


def with_status(root: Path, pid: int, ns_pids: str | None) -> None:
    (root / str(pid)).mkdir(exist_ok=True)
    line = "" if ns_pids is None else f"NSpid:\t{ns_pids}\n"
    (root / str(pid) / "status").write_text(f"Name:\tNSpid: 5\nPid:\t{pid}\n{line}NSsid:\t1\n")


@pytest.mark.parametrize(
    ("ns_pids", "own_pid"),
    [
        pytest.param("2654", 2654, id="no container"),
        pytest.param("2654\t85", 85, id="in a container"),
        pytest.param("2654\t900\t12", 12, id="a container in a container"),
        pytest.param(None, None, id="a kernel that does not tell"),
        pytest.param("", None, id="empty"),
    ],
)
def test_a_process_knows_itself_by_the_pid_of_its_innermost_namespace(
    tmp_path: Path, ns_pids: str | None, own_pid: int | None
) -> None:
    with_status(proc(tmp_path), 2654, ns_pids)
    expected = {} if own_pid is None else {2654: own_pid}
    assert LocalProcesses(tmp_path).own_pids([2654], 0.0) == expected


def test_in_a_container_only_processes_that_use_a_gpu_are_told(tmp_path: Path) -> None:
    proc(tmp_path, CONTAINER)
    for pid, mapped in ((7, "/dev/nvidia3"), (8, "/usr/lib/libc.so.6")):
        with_status(tmp_path, pid, str(pid))
        (tmp_path / str(pid) / "maps").write_text(f"7f00-7f01 r--p 0 08:01 9  {mapped}\n")
    assert LocalProcesses(tmp_path).own_pids([7, 8], 0.0) == {7: 7}


def test_what_is_known_is_not_read_again_and_what_is_not_after_ten_seconds(tmp_path: Path) -> None:
    with_status(proc(tmp_path), 7, "7 70")
    processes = LocalProcesses(tmp_path)
    assert processes.own_pids([7, 8], 100.0) == {7: 70}
    with_status(tmp_path, 7, "7 71")
    with_status(tmp_path, 8, "8 80")
    assert processes.own_pids([7, 8], 109.9) == {7: 70}
    assert processes.own_pids([7, 8], 110.0) == {7: 70, 8: 80}


def test_a_pid_that_left_the_list_is_read_anew(tmp_path: Path) -> None:
    with_status(proc(tmp_path), 7, "7 70")
    processes = LocalProcesses(tmp_path)
    processes.own_pids([7], 100.0)
    assert processes.own_pids([], 100.5) == {}
    with_status(tmp_path, 7, "7 71")
    assert processes.own_pids([7], 101.0) == {7: 71}


def test_one_tick_reads_at_most_64_processes(tmp_path: Path) -> None:
    proc(tmp_path)
    pids = range(1000, 1100)
    for pid in pids:
        with_status(tmp_path, pid, f"{pid}")
    processes = LocalProcesses(tmp_path)
    assert len(processes.own_pids(pids, 0.0)) == 64
    assert len(processes.own_pids(pids, 0.5)) == 100


def test_a_process_is_told_with_its_start_and_its_arguments(tmp_path: Path) -> None:
    before_s = time.time()
    argv = [sys.executable, "-c", "input()", "--api-key", "secret"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as process:
        launch = LocalProcesses(proc(tmp_path)).launch(process.pid)
        process.kill()
    assert launch is not None
    assert list(launch.argv) == argv
    assert abs(launch.start_unix_s - before_s) < 10


def test_a_process_that_is_gone_has_no_launch(tmp_path: Path) -> None:
    assert LocalProcesses(proc(tmp_path)).launch(3_999_999) is None


def test_another_process_of_that_number_in_a_container_has_no_launch(tmp_path: Path) -> None:
    assert LocalProcesses(proc(tmp_path, CONTAINER)).launch(os.getpid()) is None
