"""One trace file: whole lines appended, rotation by size, the directory kept under its cap.

It knows bytes and file names, no record. Every method may raise OSError: its caller backs off.
"""

import os
import re
import time
from contextlib import suppress
from pathlib import Path

DEAD_AFTER_S = 120.0  # a live writer writes at least every 30 s
LEAST_FILE_BYTES = 16 * 1024

_OURS = re.compile(r"\.(?:engine|worker)\.dp\d+\.r\d+\.\d+-\d+\.jsonl(?:\.1)?$")


class TraceFile:
    """Appends to `directory/name`; the file before the last rotation is `name.1`.

    All trace files of the directory together stay below `max_directory_bytes`: each live writer
    takes an equal share, half of it for its `.1`, and files of dead processes go first. Everybody
    may read them and a directory made for them, whatever the umask: the exporter is another user.
    """

    def __init__(self, directory: Path, name: str, max_directory_bytes: int) -> None:
        self.path = directory / name
        self._old = directory / f"{name}.1"
        self._max_directory_bytes = max_directory_bytes
        self._max_file_bytes = max_directory_bytes // 2
        self._fd = -1
        self._inode = 0
        self._size = 0
        self._is_torn = False

    def prepare(self, upcoming_bytes: int) -> bool:
        """Open, reopen or rotate where needed; True when the next line is the file's first."""
        if self._fd >= 0 and self._has_vanished():
            self.close()
        if self._fd >= 0 and 0 < self._size > self._max_file_bytes - upcoming_bytes:
            self.close()
            self.path.replace(self._old)
        if self._fd < 0:
            self._open()
            self.tidy()
        return self._size == 0

    def append(self, lines: bytes) -> None:
        """Write whole lines; after a half-written one the next call starts on a fresh line."""
        rest = memoryview(b"\n" + lines if self._is_torn else lines)
        self._is_torn = True
        while rest:
            written = os.write(self._fd, rest)
            self._size += written
            rest = rest[written:]
        self._is_torn = False

    def tidy(self) -> None:
        """Bring the directory under its cap; other programs' files are neither counted nor touched.

        A file is dead when nothing was written to it for two minutes; its pid would not tell,
        because the writers of other containers have pids that mean nothing here. A writer that was
        only stuck makes itself a new file.
        """
        sizes: dict[Path, int] = {}
        dead: list[tuple[float, Path]] = []
        live = set()
        now = time.time()
        with os.scandir(self.path.parent) as entries:
            for entry in entries:
                if not _OURS.search(entry.name) or not entry.is_file(follow_symlinks=False):
                    continue
                path, stat = Path(entry.path), entry.stat(follow_symlinks=False)
                sizes[path] = stat.st_size
                if path in (self.path, self._old):
                    continue
                if now - stat.st_mtime > DEAD_AFTER_S:
                    dead.append((stat.st_mtime, path))
                else:
                    live.add(entry.name.removesuffix(".1"))
        excess = sum(sizes.values()) - self._max_directory_bytes
        for _, path in sorted(dead):
            if excess <= 0:
                break
            path.unlink(missing_ok=True)
            excess -= sizes[path]
        share = self._max_directory_bytes // (len(live) + 1)
        self._max_file_bytes = max(LEAST_FILE_BYTES, share // 2)
        if excess > 0 and sizes.get(self._old, 0) > 0:
            self._old.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the file; prepare() opens it again."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def _open(self) -> None:
        directory = self.path.parent
        if not directory.is_dir():
            directory.mkdir(parents=True, exist_ok=True)
            directory.chmod(0o755)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(self.path, flags, 0o644)
        stat = os.fstat(self._fd)
        self._inode, self._size = stat.st_ino, stat.st_size
        if not self._size:
            with suppress(OSError):  # a file system without modes
                os.fchmod(self._fd, 0o644)

    def _has_vanished(self) -> bool:
        try:
            return self.path.stat().st_ino != self._inode
        except FileNotFoundError:
            return True
