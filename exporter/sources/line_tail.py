"""Follows one growing file through rotation, truncation, deletion; it knows no line's meaning."""

import errno
import logging
import os
import stat

from msgspec import Struct

from exporter.errors import ExporterError
from exporter.sources.lines import LineSplitter, Losses

logger = logging.getLogger(__name__)

HISTORY_BYTES = 64 * 1024
MAX_BACKLOG_BYTES = 4 * 2**20
_BLOCK_BYTES = 2**17  # stays in the processor's cache between reading and splitting
_HEAD_BYTES = 1024

_REASONS = {
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.EMFILE: "too_many_open_files",
    errno.ENFILE: "too_many_open_files",
}


class FileUnreadable(ExporterError):  # noqa: N818 (a state, named as one)
    """A path that exists could not be read this time; `reason` is one of a few snake_case words."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason

    @classmethod
    def from_os_error(cls, path: str, error: OSError) -> "FileUnreadable":
        """The failed call's error about `path`, as a reason."""
        reason = _REASONS.get(error.errno or 0, "io_error")
        return cls(reason, f"{path}: {error.strerror or error}")


class NewLines(Struct, frozen=True):
    """Lines that are new since the previous poll, without their newlines.

    `written_unix_ns`: the file's modification time when these lines may be old, because the file
    was there before it was followed; None when they came while it was being followed.
    """

    lines: list[bytes]
    written_unix_ns: int | None = None


class Position(Struct, frozen=True):
    """How far a file was read: whatever path leads to it later, reading can go on from there."""

    identity: tuple[int, int]
    head: bytes
    offset: int


class _OpenFile:
    """One file being read: its handle, how far it was read, and what it began with."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.first_status = os.fstat(descriptor)
        self.offset = 0
        self._head = b""

    def is_rewritten(self, size_bytes: int) -> bool:
        """Whether another content took the place of what was read, at the same inode.

        Truncation alone shows as a size below the offset. When the new content has already grown
        past the offset, its first bytes tell, unless they are the same too.
        """
        known_head = self._head
        self.note_head()
        return size_bytes < self.offset or not self._head.startswith(known_head)

    @property
    def position(self) -> Position:
        return Position(identity_of(self.first_status), self._head, self.offset)

    def resume(self, position: Position | None, size_bytes: int) -> bool:
        """Go to the position, if it is of this file and its content still the same."""
        if position is None or position.identity != identity_of(self.first_status):
            return False
        self._head, self.offset = position.head, position.offset
        if not self.is_rewritten(size_bytes):
            return True
        self.offset = 0
        return False

    @property
    def is_mid_line(self) -> bool:
        return self.offset > 0 and os.pread(self.descriptor, 1, self.offset - 1) != b"\n"

    def note_head(self) -> None:
        self._head = os.pread(self.descriptor, _HEAD_BYTES, 0)

    def last_lines(self, size_bytes: int) -> tuple[int, bool]:
        """Where the first line begins that starts in the last `HISTORY_BYTES`.

        Returns: its offset in bytes and False; the end of the file and True when no line starts
        there, so that the file goes on in the middle of one.
        """
        start = size_bytes - HISTORY_BYTES
        if start <= 0:
            return 0, False
        newline = os.pread(self.descriptor, HISTORY_BYTES + 1, start - 1).find(b"\n")
        return (size_bytes, True) if newline < 0 else (start + newline, False)


class LineTail:
    """Delivers the lines appended to `path`, each once and in order.

    A file that is there at the first poll is read from the first line that starts in its last
    64 KiB (what stands before is history and no loss); one that comes later is read from its start.
    After a rename the old file is read to its end, then the new one from its start; so also when
    the path is a symlink that is pointed elsewhere. A file cut short, or with another beginning, is
    read from its start. A deleted file is read to its end and let go.

    Of a long backlog only the last 64 KiB are read, because the last values are what counts.
    Skipped bytes and a last line whose newline never came are added to `losses`. What a writer
    removed before any poll saw it is beyond knowing.

    Args:
        path: of a regular file, or of none yet.
        losses: counts what is dropped; may be shared.
        skips_history: False reads a file that is there at the first poll from its start.
        resume: how far a file was read that may be the one at `path`; it is read on from there.
    """

    def __init__(
        self,
        path: str,
        losses: Losses,
        *,
        skips_history: bool = True,
        resume: Position | None = None,
    ) -> None:
        self.path = path
        self._losses = losses
        self._splitter = LineSplitter(losses)
        self._skips_history = skips_history
        self._resume = resume
        self._max_backlog_bytes = MAX_BACKLOG_BYTES
        self._file: _OpenFile | None = None
        self.left: Position | None = None
        """How far the file was read that was let go last."""

    @property
    def is_open(self) -> bool:
        """Whether a file is held open at the moment."""
        return self._file is not None

    @property
    def identity(self) -> tuple[int, int] | None:
        """Which file is held open."""
        return identity_of(self._file.first_status) if self._file else None

    def poll(self, max_backlog_bytes: int = MAX_BACKLOG_BYTES) -> NewLines:
        """What was appended since the last poll; no lines when the path does not exist.

        Args: max_backlog_bytes: of a longer backlog only the last 64 KiB are read.

        Raises: FileUnreadable: the path exists but cannot be read; the next poll tries again, and
        after a failed read starts with the last 64 KiB. Lines that were read before the failure
        are returned first; it then shows at the next poll.
        """
        self._max_backlog_bytes = max_backlog_bytes
        lines: list[bytes] = []
        try:
            written_unix_ns = self._poll(lines)
        except (OSError, FileUnreadable) as exc:
            self._skips_history = self._skips_history or self.is_open
            self.close()
            if lines or isinstance(exc, FileNotFoundError):
                return NewLines(lines)
            if isinstance(exc, OSError):
                raise FileUnreadable.from_os_error(self.path, exc) from exc
            raise
        return NewLines(lines, written_unix_ns)

    def close(self) -> None:
        """Let go of the file; an unfinished last line counts as dropped."""
        if self._file is not None:
            self.left = self._file.position
            os.close(self._file.descriptor)
            self._file = None
        self._splitter.reset()

    def _poll(self, lines: list[bytes]) -> int | None:
        """Append what is new to `lines`.

        Returns: the modification time when they may be old, see `NewLines`.
        """
        status = status_of(self.path)
        if self._file is not None:
            self._follow(self._file, status, lines)
        if status is None:
            self._skips_history = False
            return None
        return self._begin(status, lines) if self._file is None else None

    def _follow(self, file: _OpenFile, at_path: os.stat_result | None, lines: list[bytes]) -> None:
        """Read on in the open file, and let it go when something else stands at the path."""
        is_gone = at_path is None or not os.path.samestat(at_path, file.first_status)
        status = at_path if at_path and not is_gone else os.fstat(file.descriptor)
        if file.is_rewritten(status.st_size):
            logger.info("%s was truncated: reading it from its start", self.path)
            self._start_at(file, 0)
        self._read(file, status.st_size, lines)
        if is_gone:
            logger.info("%s was rotated or deleted: its old file is read to the end", self.path)
            self.close()

    def _begin(self, status: os.stat_result, lines: list[bytes]) -> int | None:
        """Open what stands at the path and read it for the first time."""
        _refuse_irregular(self.path, status)  # opening a FIFO would already wake its writer
        file = self._file = _OpenFile(os.open(self.path, os.O_RDONLY | os.O_NONBLOCK))
        status = file.first_status
        _refuse_irregular(self.path, status)
        is_resumed = file.resume(self._resume, status.st_size)
        self._resume = None
        file.note_head()
        is_history = self._skips_history and not is_resumed
        if is_resumed and file.is_mid_line:
            self._splitter.discard_line()
        if is_history:
            self._skip_to_last_lines(file, status.st_size)
        self._read(file, status.st_size, lines)
        self._skips_history = False
        return status.st_mtime_ns if is_history else None

    def _read(self, file: _OpenFile, size_bytes: int, lines: list[bytes]) -> None:
        if size_bytes - file.offset > self._max_backlog_bytes:
            skipped_from = file.offset
            self._skip_to_last_lines(file, size_bytes)
            self._losses.dropped_bytes += file.offset - skipped_from
        while file.offset < size_bytes:
            wanted_bytes = min(_BLOCK_BYTES, size_bytes - file.offset)
            block = os.pread(file.descriptor, wanted_bytes, file.offset)
            if not block:  # cut short meanwhile: the next poll sees it
                break
            file.offset += len(block)
            lines += self._splitter.feed(block)

    def _skip_to_last_lines(self, file: _OpenFile, size_bytes: int) -> None:
        offset, is_mid_line = file.last_lines(size_bytes)
        self._start_at(file, offset)
        if is_mid_line:
            self._splitter.discard_line()

    def _start_at(self, file: _OpenFile, offset: int) -> None:
        file.offset = offset
        self._splitter.reset()


def identity_of(status: os.stat_result) -> tuple[int, int]:
    """Device and inode: which file it is, whatever its name."""
    return status.st_dev, status.st_ino


def status_of(path: str) -> os.stat_result | None:
    """None when nothing is at `path`, a dangling symlink included."""
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _refuse_irregular(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise FileUnreadable("not_a_regular_file", f"{path}: not a regular file")
