"""Short names of processes by pid, remembered for a while; knows nothing of GPUs."""

import os
import re
from collections.abc import Container
from pathlib import Path

import psutil

from exporter.sources.driver_pids import PROC_ROOT, DriverPids

_REFRESH_S = 10.0  # engines rename themselves some seconds after they start
_KERNEL_NAME_LENGTH = 15
_MAX_LENGTH = 64


class ProcessNames:
    """Names of the processes that the driver lists; none for one that `DriverPids` cannot tell."""

    def __init__(self, proc_root: Path = PROC_ROOT) -> None:
        self._pids = DriverPids(proc_root)
        self._names: dict[int, tuple[str | None, float]] = {}  # pid → name, when it was read

    def name_of(self, pid: int, now_s: float) -> str | None:
        """The process's name, at most 10 s old and 64 characters long, without its arguments.

        None: there is no such process here, it may not be read, or it is not known to be the one
        that the driver means. `now_s`: monotonic seconds.
        """
        known = self._names.get(pid)
        if known is not None and now_s - known[1] < _REFRESH_S:
            return known[0]
        name = _read_name(pid) if self._pids.is_meant(pid) else None
        self._names[pid] = name, now_s
        return name

    def keep_only(self, pids: Container[int]) -> None:
        """Forget all others: their numbers can be given to new processes."""
        for pid in [pid for pid in self._names if pid not in pids]:
            del self._names[pid]
        self._pids.keep_only(pids)


def printable_name(raw: str) -> str | None:
    """A name fit for a label, from what the operating system gave; None when nothing is left.

    The kernel cuts names to 15 characters and psutil completes them from argv[0], in which a
    process may have written a whole command line: beyond 15 only what stands before the first
    blank is name. Undecodable bytes become U+FFFD, control characters go.
    """
    tail = re.split(r"\s", raw[_KERNEL_NAME_LENGTH:], maxsplit=1)[0]
    text = os.fsencode(raw[:_KERNEL_NAME_LENGTH] + tail).decode("utf-8", "replace")
    return "".join(c for c in text if c.isprintable()).strip()[:_MAX_LENGTH] or None


def _read_name(pid: int) -> str | None:
    try:
        return printable_name(psutil.Process(pid).name())
    except psutil.Error:
        return None
