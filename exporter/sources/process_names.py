"""Short names of processes by pid, remembered for a while; knows nothing of GPUs."""

import os
import re
from collections.abc import Container
from pathlib import Path

import psutil

_REFRESH_S = 10.0  # engines rename themselves some seconds after they start
_HOST_PID_NAMESPACE = f"pid:[{0xEFFFFFFC}]"  # the kernel's PROC_PID_INIT_INO
_KERNEL_NAME_LENGTH = 15
_MAX_LENGTH = 64


class ProcessNames:
    """Names of the processes that the driver lists by their pids on the host.

    In a container pid N may be another process than the host's pid N. Then a name is given only
    to a process that has NVIDIA's library or device mapped.
    """

    def __init__(self, proc_root: Path = Path("/proc")) -> None:
        self._proc_root = proc_root
        self._names: dict[int, tuple[str | None, float]] = {}  # pid → name, when it was read
        self._trusted: set[int] = set()
        try:
            namespace = os.readlink(proc_root / "self/ns/pid")
        except OSError:
            namespace = ""
        self._sees_host_pids = namespace == _HOST_PID_NAMESPACE

    def name_of(self, pid: int, now_s: float) -> str | None:
        """The process's name, at most 10 s old and 64 characters long, without its arguments.

        None: there is no such process here, it may not be read, or it is not known to be the one
        that the driver means. `now_s`: monotonic seconds.
        """
        known = self._names.get(pid)
        if known is not None and now_s - known[1] < _REFRESH_S:
            return known[0]
        name = _read_name(pid) if self._is_the_drivers(pid) else None
        self._names[pid] = name, now_s
        return name

    def keep_only(self, pids: Container[int]) -> None:
        """Forget all others: their numbers can be given to new processes."""
        for pid in [pid for pid in self._names if pid not in pids]:
            del self._names[pid]
            self._trusted.discard(pid)

    def _is_the_drivers(self, pid: int) -> bool:
        if self._sees_host_pids or pid in self._trusted:
            return True
        try:
            maps = (self._proc_root / str(pid) / "maps").read_bytes()
        except OSError:
            return False
        if b"/libcuda.so" not in maps and b"/dev/nvidia" not in maps:
            return False
        self._trusted.add(pid)
        return True


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
