"""Pids in their own namespace, start times and command lines, from /proc; judges none of them."""

from collections.abc import Collection, Mapping
from pathlib import Path

import psutil

from exporter.records.process import Launch
from exporter.sources.driver_pids import PROC_ROOT, DriverPids

_RETRY_S = 10.0
_MAX_READS = 64  # at one tick; each takes some 40 µs


class LocalProcesses:
    """`ProcessFacts` of this machine: a container's processes are told apart by NSpid.

    With the host's pids in sight (hostPID) every process can be told; in a container of its own
    only those that `DriverPids` knows.
    """

    def __init__(self, proc_root: Path = PROC_ROOT) -> None:
        self._proc_root = proc_root
        self._pids = DriverPids(proc_root)
        self._own_pids: dict[int, int] = {}
        self._failed_s: dict[int, float] = {}

    def own_pids(self, pids: Collection[int], now_s: float) -> Mapping[int, int]:
        """See `ProcessFacts.own_pids`; one that could not be told is tried again after 10 s."""
        self._pids.keep_only(pids)
        self._own_pids = {pid: own for pid, own in self._own_pids.items() if pid in pids}
        self._failed_s = {
            pid: at_s
            for pid, at_s in self._failed_s.items()
            if pid in pids and now_s - at_s < _RETRY_S
        }
        unknown = [pid for pid in pids if pid not in self._own_pids and pid not in self._failed_s]
        for pid in unknown[:_MAX_READS]:
            own_pid = self._read_own_pid(pid) if self._pids.is_meant(pid) else None
            if own_pid is None:
                self._failed_s[pid] = now_s
            else:
                self._own_pids[pid] = own_pid
        return self._own_pids

    def launch(self, pid: int) -> Launch | None:
        """See `ProcessFacts.launch`."""
        if not self._pids.is_meant(pid):
            return None
        try:
            process = psutil.Process(pid)
            return Launch(process.create_time(), tuple(process.cmdline()))
        except psutil.Error:
            return None

    def _read_own_pid(self, pid: int) -> int | None:
        """The last number of NSpid: the pid in the innermost namespace; none before Linux 4.1."""
        try:
            status = (self._proc_root / str(pid) / "status").read_bytes()
        except OSError:
            return None
        _head, is_told, tail = status.partition(b"\nNSpid:")
        numbers = tail.split(b"\n", 1)[0].split() if is_told else []
        return int(numbers[-1]) if numbers and numbers[-1].isdigit() else None
