"""Random writes, rotations, truncations, deletions and polls of real files against a model.

The model knows the truth that the follower has to find out: which file is which, and whether its
content was replaced. Every write begins with a byte that no other write of the run begins with, so
that no two contents of a file begin alike.
"""

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from exporter.sources.line_tail import HISTORY_BYTES, MAX_BACKLOG_BYTES, LineTail
from exporter.sources.lines import MAX_LINE_BYTES, Losses

FIRST_BYTES = bytes(range(33, 127))


class ModelFile:
    """What stands in one inode, and whether it was truncated since the last poll."""

    def __init__(self) -> None:
        self.content = b""
        self.is_truncated = False


class ModelReader:
    """What a perfect follower delivers and drops."""

    def __init__(self) -> None:
        self.file: ModelFile | None = None
        self.skips_history = True
        self.dropped_bytes = 0
        self.offset = 0
        self.pending = b""
        self.is_mid_dropped_line = False
        self.resume: tuple[ModelFile, int, bool] | None = None

    def poll(self, at_path: ModelFile | None) -> list[bytes]:
        lines: list[bytes] = []
        if self.file is not None:
            if self.file.is_truncated:
                self.start_over()
            lines += self.read(self.file)
            if self.file is not at_path:
                self.start_over()
                self.file = None
        if self.file is None and at_path is not None:
            self.file = at_path
            if self.resumed(at_path):
                pass
            elif self.skips_history:
                self.skip_to_last_lines(at_path.content)
            lines += self.read(at_path)
        self.skips_history = False
        if at_path is not None:
            at_path.is_truncated = False
        return lines

    def let_go(self) -> None:
        """The unfinished line is lost, also what is written of it later."""
        if self.file is not None:
            self.resume = self.file, self.offset, bool(self.pending) or self.is_mid_dropped_line
            self.file = None
        else:
            self.resume = None
        self.start_over()
        self.skips_history = False

    def resumed(self, at_path: ModelFile) -> bool:
        """Whether the file is the one that was let go, with the content that it had."""
        resume, self.resume = self.resume, None
        if resume is None or resume[0] is not at_path or at_path.is_truncated:
            return False
        _, self.offset, self.is_mid_dropped_line = resume
        return True

    def start_over(self) -> None:
        self.dropped_bytes += len(self.pending)
        self.pending = b""
        self.offset = 0
        self.is_mid_dropped_line = False

    def skip_to_last_lines(self, content: bytes) -> None:
        if len(content) > HISTORY_BYTES:
            newline = content.find(b"\n", len(content) - HISTORY_BYTES - 1)
            self.is_mid_dropped_line = newline < 0
            self.offset = len(content) if newline < 0 else newline + 1

    def read(self, file: ModelFile) -> list[bytes]:
        offset = self.offset
        if len(file.content) - offset > MAX_BACKLOG_BYTES:
            self.start_over()
            self.skip_to_last_lines(file.content)
            self.dropped_bytes += self.offset - offset
        unread = file.content[self.offset :]
        self.offset = len(file.content)
        if self.is_mid_dropped_line:
            dropped, newline, unread = unread.partition(b"\n")
            self.dropped_bytes += len(dropped + newline)
            self.is_mid_dropped_line = not newline
        *lines, self.pending = (self.pending + unread).split(b"\n")
        return [line for line in lines if self.is_deliverable(line)]

    def is_deliverable(self, line: bytes) -> bool:
        if len(line) <= MAX_LINE_BYTES and b"\xff" not in line:
            return True
        self.dropped_bytes += len(line) + 1
        return False

    def dropped_bytes_by_now(self) -> int:
        """An unfinished line that is already too long is dropped before it ends."""
        is_too_long = len(self.pending) > MAX_LINE_BYTES
        return self.dropped_bytes + (len(self.pending) if is_too_long else 0)


class TailMachine(RuleBasedStateMachine):
    """Does the same to a real file and to the model."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.path = Path(self.directory.name, "trace.jsonl")
        self.losses = Losses()
        self.tail = LineTail(str(self.path), self.losses)
        self.reader = ModelReader()
        self.at_path: ModelFile | None = None
        self.lines_begun = 0
        self.rotations = 0

    def teardown(self) -> None:
        self.tail.close()
        self.directory.cleanup()

    def write(self, content: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(content)
        if self.at_path is None:
            self.at_path = ModelFile()
        self.at_path.content += content

    def new_line(self, rest: bytes) -> bytes:
        self.lines_begun += 1
        return FIRST_BYTES[self.lines_begun % len(FIRST_BYTES)].to_bytes() + rest

    @initialize(is_there=st.booleans())
    def begin(self, is_there: bool) -> None:
        if is_there:
            self.write(self.new_line(b"first\n"))

    @rule(rest=st.text("ab é😀\r\0", max_size=20))
    def write_a_line(self, rest: str) -> None:
        self.write(self.new_line(rest.encode() + b"\n"))

    @rule(count=st.integers(2, 5))
    def write_lines(self, count: int) -> None:
        self.write(self.new_line(b"\n") + b"more\n" * count)

    @rule(length=st.integers(0, 20))
    def write_a_part(self, length: int) -> None:
        self.write(self.new_line(b"x" * length))

    @rule()
    def write_invalid_utf8(self) -> None:
        self.write(self.new_line(b"\xff\n"))

    @rule(extra=st.integers(-1, 2), is_finished=st.booleans())
    def write_a_line_near_the_cap(self, extra: int, is_finished: bool) -> None:
        end = b"\n" if is_finished else b""
        self.write(self.new_line(b"x" * (MAX_LINE_BYTES - 1 + extra) + end))

    @rule(lines=st.integers(-1, 2))
    def write_a_backlog(self, lines: int) -> None:
        line = self.new_line(b"x" * 1022 + b"\n")
        self.write(line * (MAX_BACKLOG_BYTES // len(line) + lines))

    @precondition(lambda self: self.at_path is not None)
    @rule(is_created=st.booleans())
    def rotate(self, is_created: bool) -> None:
        self.rotations += 1
        self.path.rename(self.path.with_suffix(f".{self.rotations}"))
        self.at_path = None
        if is_created:
            self.write(b"")

    @precondition(lambda self: self.at_path is not None)
    @rule()
    def truncate(self) -> None:
        self.path.write_bytes(b"")
        assert self.at_path is not None
        self.at_path.content = b""
        self.at_path.is_truncated = True

    @precondition(lambda self: self.at_path is not None)
    @rule()
    def delete(self) -> None:
        self.path.unlink()
        self.at_path = None

    @precondition(lambda self: self.at_path is not None)
    @rule(is_same_size=st.booleans(), lines=st.integers(1, 3))
    def replace_in_place(self, is_same_size: bool, lines: int) -> None:
        """As copytruncate and `cp` do: the same inode, another content, perhaps as long."""
        assert self.at_path is not None
        content = self.new_line(b"\n") + b"replaced\n" * lines
        length = len(self.at_path.content)
        if is_same_size and length > len(content):
            content += b"x" * (length - len(content) - 1) + b"\n"
        self.path.write_bytes(content)
        self.at_path.content = content
        self.at_path.is_truncated = True

    @precondition(lambda self: self.at_path is not None)
    @rule()
    def replace_by_rename(self) -> None:
        """As editors and atomic writers do: another inode takes the place in one step."""
        content = self.new_line(b"another\n")
        draft = self.path.with_suffix(".draft")
        draft.write_bytes(content)
        draft.rename(self.path)
        self.at_path = ModelFile()
        self.at_path.content = content

    @rule()
    def let_go_and_read_on(self) -> None:
        """As a reload does: another tail goes on from where this one was."""
        self.tail.close()
        self.tail = LineTail(
            str(self.path), self.losses, skips_history=False, resume=self.tail.left
        )
        self.reader.let_go()

    @rule()
    def poll(self) -> None:
        delivered = self.tail.poll().lines
        assert delivered == self.reader.poll(self.at_path)
        assert self.losses.dropped_bytes == self.reader.dropped_bytes_by_now()


TailMachine.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],  # some steps write megabytes
)
test_every_line_is_delivered_once_in_order_or_counted = TailMachine.TestCase
