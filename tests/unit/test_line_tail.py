import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporter.sources.line_tail import (
    HISTORY_BYTES,
    MAX_BACKLOG_BYTES,
    FileUnreadable,
    LineTail,
)
from exporter.sources.lines import MAX_LINE_BYTES, Losses


class Followed:
    """A tail of `path` with its losses; `new()` polls it."""

    def __init__(self, path: Path, *, skips_history: bool = True) -> None:
        self.losses = Losses()
        self.tail = LineTail(str(path), self.losses, skips_history=skips_history)

    def new(self) -> list[bytes]:
        return self.tail.poll().lines


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trace.jsonl"


@pytest.fixture
def followed(path: Path) -> Iterator[Followed]:
    """A tail that found nothing at its first poll: whatever comes is read from its start."""
    tail = Followed(path)
    assert tail.new() == []
    yield tail
    tail.tail.close()


def append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


@contextmanager
def no_access_to(directory: Path) -> Iterator[None]:
    """Take all rights on `directory` away, from root too by not being root."""
    is_root = os.geteuid() == 0
    directory.chmod(0)
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        directory.chmod(0o700)


def test_appended_lines_are_delivered_once_and_in_order(followed: Followed, path: Path) -> None:
    append(path, b"1\n2\n")
    assert followed.new() == [b"1", b"2"]
    assert followed.new() == []
    append(path, b"3\n")
    assert followed.new() == [b"3"]
    assert followed.losses.dropped_bytes == 0


def test_d5_a_partial_last_line_waits_for_its_newline(followed: Followed, path: Path) -> None:
    append(path, b'1\n{"half":')
    assert followed.new() == [b"1"]
    assert followed.new() == []
    append(path, b' "other"}\n')
    assert followed.new() == [b'{"half": "other"}']
    assert followed.losses.dropped_bytes == 0


def test_a_file_that_comes_later_is_read_from_its_start(path: Path) -> None:
    content = b"0123456789abcde\n" * 6144  # 96 KiB
    followed = Followed(path)
    assert followed.new() == []
    append(path, content)

    assert len(followed.new()) == 6144
    followed.tail.close()


def test_of_a_file_that_is_there_the_last_64_kib_are_read_and_older_lines_are_no_loss(
    path: Path,
) -> None:
    lines = [b"%09d" % number for number in range(10_000)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    followed = Followed(path)

    # 10 bytes a line: 6553 whole lines begin in the last 65536 bytes, the one cut in two does not
    assert followed.new() == lines[-6553:]
    assert followed.losses.dropped_bytes == 0
    append(path, b"next\n")
    assert followed.new() == [b"next"]
    followed.tail.close()


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        pytest.param(
            b"old\n" + b"x" * (HISTORY_BYTES - 1) + b"\n", [b"x" * (HISTORY_BYTES - 1)], id="fits"
        ),
        pytest.param(b"old\n" + b"x" * HISTORY_BYTES + b"\n", [], id="one byte too long"),
        pytest.param(b"x" * (HISTORY_BYTES - 4) + b"\nok\n", [b"x" * 65532, b"ok"], id="all of it"),
    ],
)
def test_history_begins_with_the_first_line_that_starts_in_the_last_64_kib(
    path: Path, content: bytes, lines: list[bytes]
) -> None:
    path.write_bytes(content)
    followed = Followed(path)

    assert followed.new() == lines
    append(path, b"next\n")
    assert followed.new() == [b"next"]
    assert followed.losses.dropped_bytes == 0
    followed.tail.close()


def test_history_in_the_middle_of_a_long_line_waits_for_the_next_line(path: Path) -> None:
    path.write_bytes(b"x" * (HISTORY_BYTES + 9))
    followed = Followed(path)

    assert followed.new() == []
    append(path, b"rest\nnext\n")
    assert followed.new() == [b"next"]
    assert followed.losses.dropped_bytes == 5
    followed.tail.close()


def test_only_the_lines_that_were_there_before_carry_the_modification_time(path: Path) -> None:
    path.write_bytes(b"old\n")
    os.utime(path, ns=(1_000, 1_795_956_239_000_000_000))
    followed = Followed(path)

    assert followed.tail.poll().written_unix_ns == 1_795_956_239_000_000_000
    append(path, b"new\n")
    assert followed.tail.poll().written_unix_ns is None
    followed.tail.close()


def test_history_can_be_wanted_whole(path: Path) -> None:
    path.write_bytes(b"0123456789abcde\n" * 6144)
    followed = Followed(path, skips_history=False)

    poll = followed.tail.poll()
    assert len(poll.lines) == 6144
    assert poll.written_unix_ns is None
    followed.tail.close()


def test_after_a_rename_the_old_file_is_finished_before_the_new_one_begins(
    followed: Followed, path: Path
) -> None:
    append(path, b"1\n")
    assert followed.new() == [b"1"]
    append(path, b"2\n")
    path.rename(path.with_suffix(".jsonl.1"))
    append(path, b"3\n")

    assert followed.new() == [b"2", b"3"]
    assert followed.losses.dropped_bytes == 0


def test_between_rename_and_new_file_the_old_one_is_finished(
    followed: Followed, path: Path
) -> None:
    append(path, b"1\n")
    followed.new()
    append(path, b"2\n")
    path.rename(path.with_suffix(".jsonl.1"))
    assert followed.new() == [b"2"]
    append(path, b"3\n")
    assert followed.new() == [b"3"]


def test_an_unfinished_line_of_a_rotated_file_is_dropped_and_counted(
    followed: Followed, path: Path
) -> None:
    append(path, b"1\nhalf")
    followed.new()
    path.rename(path.with_suffix(".jsonl.1"))
    append(path, b"2\n")

    assert followed.new() == [b"2"]
    assert followed.losses.dropped_bytes == 4


def test_d1_copytruncate_to_a_smaller_file_is_read_from_its_start(
    followed: Followed, path: Path
) -> None:
    append(path, b"first\nsecond\n")
    followed.new()
    path.write_bytes(b"new\n")

    assert followed.new() == [b"new"]


def test_a_shorter_file_is_new_even_when_it_begins_like_the_old_one(
    followed: Followed, path: Path
) -> None:
    append(path, b"0123456789abcde\n" * 300)
    followed.new()
    path.write_bytes(b"0123456789abcde\n" * 100)

    assert followed.new() == [b"0123456789abcde"] * 100


@pytest.mark.parametrize("content", [b"FIRST\nsecond\n", b"FIRST\nsecond\nthird\n"])
def test_d1_replaced_content_of_the_same_or_a_larger_size_is_read_from_its_start(
    followed: Followed, path: Path, content: bytes
) -> None:
    append(path, b"first\nsecond\n")
    followed.new()
    path.write_bytes(content)

    assert followed.new() == content.split(b"\n")[:-1]


def test_truncation_to_nothing_is_noticed_before_anything_is_written(
    followed: Followed, path: Path
) -> None:
    append(path, b"1\nhalf")
    followed.new()
    path.write_bytes(b"")
    assert followed.new() == []
    assert followed.losses.dropped_bytes == 4
    append(path, b"1\n2\n3\n")
    assert followed.new() == [b"1", b"2", b"3"]


def test_a_file_truncated_and_then_renamed_between_two_polls_is_still_read(
    followed: Followed, path: Path
) -> None:
    append(path, b"first\nsecond\n")
    followed.new()
    path.write_bytes(b"new\n")
    path.rename(path.with_suffix(".jsonl.1"))

    assert followed.new() == [b"new"]


def test_a_deleted_file_is_finished_and_let_go_and_read_from_its_start_when_it_reappears(
    followed: Followed, path: Path
) -> None:
    append(path, b"1\n")
    followed.new()
    append(path, b"2\n")
    path.unlink()
    assert followed.new() == [b"2"]
    assert not followed.tail.is_open
    assert followed.new() == []
    append(path, b"1\n")
    assert followed.new() == [b"1"]


def test_a_symlink_pointed_elsewhere_is_followed_like_a_rotation(tmp_path: Path) -> None:
    """As Kubernetes does it: `trace.jsonl` → `..data/trace.jsonl`, and `..data` is swapped."""
    for version, content in (("v1", b"1\n"), ("v2", b"2\n")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "trace.jsonl").write_bytes(content)
    (tmp_path / "..data").symlink_to("v1")
    link = tmp_path / "trace.jsonl"
    link.symlink_to("..data/trace.jsonl")
    followed = Followed(link)
    assert followed.new() == [b"1"]

    (tmp_path / "..tmp").symlink_to("v2")
    (tmp_path / "..tmp").rename(tmp_path / "..data")
    assert followed.new() == [b"2"]
    followed.tail.close()


def test_d4_a_line_over_the_cap_does_not_stop_the_file(followed: Followed, path: Path) -> None:
    append(path, b"1\n" + b"x" * (MAX_LINE_BYTES + 1) + b"\n2\n")

    assert followed.new() == [b"1", b"2"]
    assert followed.losses.oversized_lines == 1
    assert followed.losses.dropped_bytes == MAX_LINE_BYTES + 2


def test_d10_of_a_long_backlog_the_last_64_kib_are_read_and_the_rest_is_counted(
    followed: Followed, path: Path
) -> None:
    append(path, b"first\nhalf")
    assert followed.new() == [b"first"]
    line = b"0123456789abcde\n"
    append(path, line * (MAX_BACKLOG_BYTES // 16 + 1))

    assert followed.new() == [line[:-1]] * 4096
    # the pending half line, and all appended lines but the last 64 KiB of them
    assert followed.losses.dropped_bytes == 4 + MAX_BACKLOG_BYTES + 16 - HISTORY_BYTES


def test_a_backlog_of_just_the_limit_is_read_whole(followed: Followed, path: Path) -> None:
    append(path, b"0123456789abcde\n" * (MAX_BACKLOG_BYTES // 16))

    assert len(followed.new()) == MAX_BACKLOG_BYTES // 16
    assert followed.losses.dropped_bytes == 0


def test_d4_fifty_megabytes_without_a_newline_are_dropped_and_the_next_line_read(
    followed: Followed, path: Path
) -> None:
    with path.open("wb") as file:
        file.truncate(50 * 2**20)  # a hole: NUL bytes
    assert followed.new() == []
    append(path, b"\nok\n")
    assert followed.new() == [b"ok"]
    assert followed.losses.dropped_bytes == 50 * 2**20 + 1


def test_d9_a_fifo_is_refused_without_waiting_for_a_writer(path: Path) -> None:
    os.mkfifo(path)
    followed = Followed(path)

    with pytest.raises(FileUnreadable, match="not a regular file") as caught:
        followed.new()
    assert caught.value.reason == "not_a_regular_file"


def test_a_directory_is_refused_until_a_file_takes_its_place(path: Path) -> None:
    path.mkdir()
    followed = Followed(path)
    with pytest.raises(FileUnreadable) as caught:
        followed.new()
    assert caught.value.reason == "not_a_regular_file"

    path.rmdir()
    append(path, b"1\n")
    assert followed.new() == [b"1"]
    followed.tail.close()


def test_a_file_without_permission_is_read_when_the_permission_comes(tmp_path: Path) -> None:
    directory = tmp_path / "closed"
    directory.mkdir()
    append(directory / "trace.jsonl", b"1\n")
    followed = Followed(directory / "trace.jsonl")
    with no_access_to(directory), pytest.raises(FileUnreadable) as caught:
        followed.new()

    assert caught.value.reason == "permission_denied"
    assert followed.new() == [b"1"]
    followed.tail.close()


def test_a_symlink_to_itself_is_unreadable(path: Path) -> None:
    path.symlink_to(path)
    with pytest.raises(FileUnreadable, match="symbolic links") as caught:
        Followed(path).new()
    assert caught.value.reason == "io_error"


def test_a_read_error_is_reported_and_leaves_no_file_open() -> None:
    followed = Followed(Path("/proc/self/mem"))  # opens, and its address 0 cannot be read

    with pytest.raises(FileUnreadable) as caught:
        followed.new()
    assert caught.value.reason == "io_error"
    assert not followed.tail.is_open


def test_lines_of_the_old_file_survive_when_the_new_one_is_unreadable(
    followed: Followed, path: Path
) -> None:
    append(path, b"1\n")
    followed.new()
    append(path, b"2\n")
    path.rename(path.with_suffix(".jsonl.1"))
    path.mkdir()

    assert followed.new() == [b"2"]
    with pytest.raises(FileUnreadable):
        followed.new()


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (errno.EACCES, "permission_denied"),
        (errno.EPERM, "permission_denied"),
        (errno.EMFILE, "too_many_open_files"),
        (errno.ENFILE, "too_many_open_files"),
        (errno.ESTALE, "io_error"),
    ],
)
def test_reasons_are_few(code: int, reason: str) -> None:
    failure = FileUnreadable.from_os_error("/a/file", OSError(code, os.strerror(code)))

    assert failure.reason == reason
    assert str(failure) == f"/a/file: {os.strerror(code)}"
