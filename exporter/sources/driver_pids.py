"""Which process of this machine the driver means by a pid; knows nothing of GPUs."""

import os
from collections.abc import Container
from pathlib import Path

PROC_ROOT = Path("/proc")
_HOST_PID_NAMESPACE = f"pid:[{0xEFFFFFFC}]"  # the kernel's PROC_PID_INIT_INO


class DriverPids:
    """Tells whether process N here is the one that the driver lists as N: a pid on the host.

    In a container pid N may be another process than the host's pid N. Then only a process that has
    NVIDIA's library or device mapped is taken for the one that is meant.
    """

    def __init__(self, proc_root: Path = PROC_ROOT) -> None:
        self._proc_root = proc_root
        self._trusted: set[int] = set()
        try:
            namespace = os.readlink(proc_root / "self/ns/pid")
        except OSError:
            namespace = ""
        self._sees_host_pids = namespace == _HOST_PID_NAMESPACE

    def is_meant(self, pid: int) -> bool:
        """Whether the process with this pid here is known to be the one that the driver means."""
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

    def keep_only(self, pids: Container[int]) -> None:
        """Forget all others: their numbers can be given to new processes."""
        self._trusted = {pid for pid in self._trusted if pid in pids}
