"""The trace file: whole lines, rotation, the cap of the directory, and all that can go wrong."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from exporter.plugin.trace_file import LEAST_FILE_BYTES, TraceFile

NAME = "node.engine.dp0.r0.4242-1795956000.jsonl"
LINE = b'{"type":"kv"}\n'
CAP = 8 * LEAST_FILE_BYTES


def open_file(directory: Path, cap: int = CAP, name: str = NAME) -> TraceFile:
    return TraceFile(directory, name, cap)


def write(file: TraceFile, lines: bytes = LINE) -> bool:
    is_first = file.prepare(len(lines))
    file.append(lines)
    return is_first


def total(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.iterdir())


def test_only_the_first_line_of_a_file_is_the_first(tmp_path: Path) -> None:
    file = open_file(tmp_path)
    assert [write(file), write(file)] == [True, False]
    assert (tmp_path / NAME).read_bytes() == LINE * 2


def test_a_missing_directory_is_made(tmp_path: Path) -> None:
    write(open_file(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b" / NAME).read_bytes() == LINE


def test_another_user_may_read_it_whatever_the_umask_and_nothing_else_changes(
    tmp_path: Path,
) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    former = os.umask(0o077)
    try:
        write(open_file(private / "made"))
        write(open_file(private))
    finally:
        os.umask(former)
    modes = {
        path: path.stat().st_mode & 0o777
        for path in (private, private / "made", private / "made" / NAME, private / NAME)
    }
    assert list(modes.values()) == [0o700, 0o755, 0o644, 0o644]


def test_the_mode_of_a_file_that_has_lines_stays(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(LINE)
    (tmp_path / NAME).chmod(0o600)
    write(open_file(tmp_path))
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600


def test_it_rotates_before_it_grows_past_its_share(tmp_path: Path) -> None:
    file = open_file(tmp_path)
    lines = LINE * 100
    firsts = [write(file, lines) for _ in range(200)]
    assert firsts.count(True) > 2
    assert sorted(path.name for path in tmp_path.iterdir()) == [NAME, f"{NAME}.1"]
    assert (tmp_path / NAME).stat().st_size <= CAP // 2
    assert CAP // 4 < total(tmp_path) <= CAP


def test_several_writers_stay_below_the_cap_together(tmp_path: Path) -> None:
    files = [open_file(tmp_path, name=f"n.worker.dp0.r{r}.{r + 1}-5.jsonl") for r in range(4)]
    for _ in range(300):
        for file in files:
            write(file, LINE * 20)
    for file in files:
        file.tidy()
        write(file)
    assert total(tmp_path) <= CAP


def test_files_of_the_dead_go_first_and_oldest_first(tmp_path: Path) -> None:
    for age_s, name in ((900, "old"), (600, "older than two minutes")):
        path = tmp_path / f"{name}.engine.dp0.r0.7-5.jsonl"
        path.write_bytes(b"x" * (CAP - 1000))
        stamp = path.stat().st_mtime - age_s
        os.utime(path, (stamp, stamp))
    write(open_file(tmp_path))
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {NAME, "older than two minutes.engine.dp0.r0.7-5.jsonl"}


@pytest.mark.parametrize("name", ["notes.txt", "recording.jsonl", "x.engine.dp0.r0.7-5.jsonl.gz"])
def test_other_files_are_neither_counted_nor_touched(tmp_path: Path, name: str) -> None:
    other = tmp_path / name
    other.write_bytes(b"x" * 2 * CAP)
    os.utime(other, (0, 0))
    write(open_file(tmp_path))
    assert other.exists()


def test_a_file_that_was_removed_or_replaced_is_made_anew(tmp_path: Path) -> None:
    file = open_file(tmp_path)
    write(file)
    (tmp_path / NAME).unlink()
    assert write(file)
    (tmp_path / NAME).rename(tmp_path / "moved")
    assert write(file)
    assert (tmp_path / NAME).read_bytes() == LINE


def test_a_removed_directory_is_made_anew(tmp_path: Path) -> None:
    directory = tmp_path / "trace"
    file = open_file(directory)
    write(file)
    (directory / NAME).unlink()
    directory.rmdir()
    assert write(file)


def test_it_does_not_follow_a_link(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"precious")
    (tmp_path / NAME).symlink_to(target)
    with pytest.raises(OSError, match="symbolic links"):
        write(open_file(tmp_path))
    assert target.read_bytes() == b"precious"


FULL = """
import resource, sys
from pathlib import Path
from exporter.plugin.trace_file import TraceFile
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 200))
file = TraceFile(Path(sys.argv[1]), sys.argv[2], 1 << 20)
line = b"a" * 69 + b"\\n"
file.prepare(70); file.append(line)
try:
    file.prepare(70); file.append(line)
except OSError as exc:
    print(type(exc).__name__, end=" ")
resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))
file.prepare(70); file.append(line)
"""


def test_after_a_half_written_line_the_next_starts_on_a_fresh_one(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path), NAME],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["OSError"]
    lines = (tmp_path / NAME).read_bytes().split(b"\n")
    assert [len(line) for line in lines] == [69, 30, 69, 0]
