"""Names of real processes; the namespace and the maps are files of an invented /proc."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporter.sources.process_names import ProcessNames, printable_name
from tests.programs import require_program

HOST, CONTAINER = "pid:[4026531836]", "pid:[4026532777]"


def proc(root: Path, namespace: str = HOST) -> Path:
    (root / "self" / "ns").mkdir(parents=True)
    (root / "self" / "ns" / "pid").symlink_to(namespace)
    return root


def with_maps(root: Path, pid: int, mapped: str) -> None:
    (root / str(pid)).mkdir(exist_ok=True)
    (root / str(pid) / "maps").write_text(f"7f00-7f01 r--p 00000000 08:01 9  {mapped}\n")


@contextmanager
def running(directory: Path, name: bytes) -> Iterator[int]:
    """A process of that name which waits for the end of the block, with a secret argument."""
    program = os.path.join(os.fsencode(directory), name)
    os.symlink(require_program("cat"), program)
    with subprocess.Popen([program, b"-", b"secret"], stdin=subprocess.PIPE) as process:
        yield process.pid
        process.kill()


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        pytest.param(b"engine", "engine", id="short"),
        pytest.param(b"inference-engine-7", "inference-engine-7", id="cut by the kernel"),
        pytest.param(b"bad\xff\xfe", "bad\ufffd\ufffd", id="bytes that are not UTF-8"),
    ],
)
def test_a_process_is_named_without_path_and_arguments(
    tmp_path: Path, program: bytes, expected: str
) -> None:
    names = ProcessNames(proc(tmp_path))
    with running(tmp_path, program) as pid:
        assert names.name_of(pid, 0.0) == expected


def test_a_pid_that_is_not_here_has_no_name(tmp_path: Path) -> None:
    assert ProcessNames(proc(tmp_path)).name_of(3_999_999, 0.0) is None


@pytest.mark.parametrize(
    ("mapped", "is_named"),
    [
        pytest.param("/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04", True, id="libcuda"),
        pytest.param("/dev/nvidia3", True, id="a device"),
        pytest.param("/usr/lib/x86_64-linux-gnu/libc.so.6", False, id="another process"),
        pytest.param("/home/libcudart.so.13", False, id="the CUDA runtime alone"),
    ],
)
def test_b6_in_a_container_only_a_process_that_uses_a_gpu_is_named(
    tmp_path: Path, mapped: str, is_named: bool
) -> None:
    with_maps(proc(tmp_path, CONTAINER), os.getpid(), mapped)
    assert (ProcessNames(tmp_path).name_of(os.getpid(), 0.0) is not None) is is_named


def test_in_a_container_unreadable_maps_give_no_name(tmp_path: Path) -> None:
    assert ProcessNames(proc(tmp_path, CONTAINER)).name_of(os.getpid(), 0.0) is None


def test_an_unknown_namespace_is_treated_as_a_container(tmp_path: Path) -> None:
    assert ProcessNames(tmp_path).name_of(os.getpid(), 0.0) is None


def test_a_name_is_read_again_after_ten_seconds(tmp_path: Path) -> None:
    names = ProcessNames(proc(tmp_path, CONTAINER))
    assert names.name_of(os.getpid(), 100.0) is None
    with_maps(tmp_path, os.getpid(), "/dev/nvidia0")
    assert names.name_of(os.getpid(), 109.9) is None
    assert names.name_of(os.getpid(), 110.0) is not None


def test_a_pid_that_left_the_list_is_forgotten(tmp_path: Path) -> None:
    names = ProcessNames(proc(tmp_path, CONTAINER))
    with_maps(tmp_path, os.getpid(), "/dev/nvidia0")
    assert names.name_of(os.getpid(), 100.0) is not None
    names.keep_only({1})
    with_maps(tmp_path, os.getpid(), "/usr/bin/python3")
    assert names.name_of(os.getpid(), 100.1) is None


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param("VLLM::EngineCore", "VLLM::EngineCore", id="plain"),
        pytest.param("Web Content", "Web Content", id="blanks within the kernel's 15 characters"),
        pytest.param(
            "inference-server --api-key=secret", "inference-server", id="a title with arguments"
        ),
        pytest.param("inference-serve\t--key", "inference-serve", id="a tab ends the name"),
        pytest.param("bad\udcff\udcfe", "bad\ufffd\ufffd", id="bytes that are not UTF-8"),
        pytest.param('we"ird\nna\x00me\x1b[0m', 'we"irdname[0m', id="control characters"),
        pytest.param("é" * 70, "é" * 64, id="long"),
        pytest.param("\x01\x02 ", None, id="nothing left"),
        pytest.param("", None, id="empty"),
    ],
)
def test_a_name_is_fit_for_a_label(raw: str, expected: str | None) -> None:
    assert printable_name(raw) == expected
