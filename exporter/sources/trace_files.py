"""Which files the configured trace paths name right now; it opens none of them."""

import glob
import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress

from msgspec import Struct

from exporter.sources.line_tail import FileUnreadable, identity_of, status_of

MAX_FILES = 256  # each is an open handle; more than that are files of dead processes
_SUFFIXES = (".jsonl", ".log")
_MINUTE_NS = 60 * 10**9


class TraceFiles(Struct, frozen=True):
    """What one look at the paths found.

    `paths`: files to follow, at most `MAX_FILES`, sorted; `passed_over`: those beyond, the longest
    unwritten; `failures`: directories that could not be listed, and this program's own log.
    """

    paths: list[str]
    passed_over: frozenset[str]
    failures: list[FileUnreadable]


def find_trace_files(paths: Sequence[str]) -> TraceFiles:
    """Expand files, directories and glob patterns; what does not exist is left out.

    Of a directory: its ``*.jsonl`` and ``*.log``, so neither rotated files (``….jsonl.1``) nor
    `pause`. Of a pattern: every file as the pattern says, and directories as above. A file with
    several names counts once, by its own name rather than by a symlink's.
    """
    found: set[str] = set()
    failures: list[FileUnreadable] = []
    for path in _expand(paths):
        if not os.path.isdir(path):
            found.add(path)
            continue
        try:
            found.update(_in_directory(path))
        except OSError as exc:
            failures.append(FileUnreadable.from_os_error(path, exc))
    found = _one_name_each(found)
    own_output = _own_output()
    for path in [path for path in found if own_output and identity_at(path) in own_output]:
        found.remove(path)
        failures.append(FileUnreadable("own_log", f"{path}: this program itself writes to it"))
    followed = sorted(found) if len(found) <= MAX_FILES else sorted(_newest(found))
    return TraceFiles(followed, frozenset(found.difference(followed)), failures)


def _expand(paths: Iterable[str]) -> Iterable[str]:
    for path in paths:
        if _exists(path):
            yield path
        elif glob.has_magic(path):
            yield from glob.iglob(path, recursive=True)


def _exists(path: str) -> bool:
    """Whether something stands at `path`, also when it cannot be looked at."""
    try:
        return status_of(path) is not None
    except OSError:
        return True


def _in_directory(directory: str) -> list[str]:
    names = [name for name in os.listdir(directory) if name.endswith(_SUFFIXES)]
    return [os.path.join(directory, name) for name in names]


def _one_name_each(paths: Iterable[str]) -> set[str]:
    names: dict[object, str] = {}
    for path in sorted(paths, key=lambda path: (os.path.islink(path), path)):
        names.setdefault(identity_at(path) or path, path)
    return set(names.values())


def identity_at(path: str) -> tuple[int, int] | None:
    """Which file the path leads to, as `identity_of`; None when that cannot be told."""
    try:
        status = status_of(path)
    except OSError:
        return None
    return identity_of(status) if status else None


def _own_output() -> set[tuple[int, int]]:
    own = set()
    for descriptor in (1, 2):
        with suppress(OSError):  # closed
            status = os.fstat(descriptor)
            if stat.S_ISREG(status.st_mode):
                own.add(identity_of(status))
    return own


def _newest(paths: Iterable[str]) -> list[str]:
    """The `MAX_FILES` last written, to the minute: files being written do not change places."""
    return sorted(paths, key=lambda path: (-_written_minute(path), path))[:MAX_FILES]


def _written_minute(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns // _MINUTE_NS
    except OSError:
        return 0
