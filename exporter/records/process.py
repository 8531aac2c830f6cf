"""What the operating system tells of the processes that the driver lists, and who is asked."""

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol


class Launch(NamedTuple):
    """When a process began, and its command line as it was given; not yet fit to be shown."""

    start_unix_s: float
    argv: tuple[str, ...]


class ProcessFacts(Protocol):
    """Asked at each tick; answers at once and looks up only a bounded number of processes."""

    def own_pids(self, pids: Collection[int], now_s: float) -> Mapping[int, int]:
        """The pid that each process has in its own view, by its pid as the driver lists it.

        Processes that it cannot tell are left out. Args: pids: all that are listed now. now_s:
        monotonic seconds.
        """
        ...

    def launch(self, pid: int) -> Launch | None:
        """How the process began; None when that cannot be told. `pid`: as the driver lists it."""
        ...


class RecordedProcesses:
    """Of a recording's processes only their pids are known; this machine is never asked."""

    def own_pids(self, pids: Collection[int], _now_s: float) -> Mapping[int, int]:
        """See `ProcessFacts.own_pids`: taken for the same."""
        return {pid: pid for pid in pids}

    def launch(self, _pid: int) -> Launch | None:
        """See `ProcessFacts.launch`: never known."""
        return None
