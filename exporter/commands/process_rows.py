"""The processes of each GPU as rows: from a View, and from what the operating system tells."""

from msgspec import Struct

from exporter.analysis.process_owners import Owners, owners
from exporter.analysis.redaction import redacted
from exporter.records.conflict import ProcessRow
from exporter.records.device import ProcessMemory
from exporter.records.process import ProcessFacts
from exporter.records.view import DeviceView, View

OTHER = "other_processes"


class Process(Struct, frozen=True, kw_only=True):
    """One process on one GPU; None: not known.

    `share_ratio`: of the GPU's memory. `owner`: ``replica/engine rank N``, `OTHER` when it belongs
    to no known engine, None when it may be one's. `command`: redacted, and only on request.
    """

    pid: int
    name: str | None
    used_bytes: int | None
    share_ratio: float | None
    owner: str | None
    start_unix_s: float | None
    command: str | None


class Gpu(Struct, frozen=True, kw_only=True):
    """One GPU; `processes` by memory, None when they are not told."""

    device: str
    uuid: str
    name: str
    used_bytes: int | None
    total_bytes: int | None
    processes: tuple[Process, ...] | None


class Machine(Struct, frozen=True, kw_only=True):
    """All GPUs at one moment. `replay`: name of the recording when this is no live data."""

    ts_unix_s: float
    replay: str | None
    gpus: tuple[Gpu, ...]


def machine(view: View, facts: ProcessFacts, *, shows_commands: bool) -> Machine:
    """The rows of a View.

    Start times and command lines come from `facts`, else from conflicts that are going on.
    """
    owned = owners(view)
    told = {
        (row.uuid, row.pid): row
        for conflict in view.conflicts
        if conflict.ended_unix_ns is None
        for row in conflict.processes
    }

    def process(device: DeviceView, memory: ProcessMemory, total_bytes: int | None) -> Process:
        key = (device.facts.uuid, memory.pid)
        start_unix_s, command = _launch(memory.pid, told.get(key), facts)
        used_bytes = memory.used_bytes
        is_share_known = used_bytes is not None and bool(total_bytes)
        return Process(
            pid=memory.pid,
            name=memory.name,
            used_bytes=used_bytes,
            share_ratio=(used_bytes or 0) / (total_bytes or 1) if is_share_known else None,
            owner=_owner(key, owned),
            start_unix_s=start_unix_s,
            command=command if shows_commands else None,
        )

    def gpu(device: DeviceView) -> Gpu:
        sample = device.sample
        memory = sample.memory if sample else None
        total_bytes = memory.total_bytes if memory else None
        listed = sample.processes if sample else None
        by_memory = sorted(listed or (), key=lambda each: -(each.used_bytes or 0))
        return Gpu(
            device=f"cuda:{device.facts.index}",
            uuid=device.facts.uuid,
            name=device.facts.name,
            used_bytes=memory.used_bytes if memory else None,
            total_bytes=total_bytes,
            processes=(
                None
                if listed is None
                else tuple(process(device, each, total_bytes) for each in by_memory)
            ),
        )

    return Machine(
        ts_unix_s=view.ts_unix_ns / 1e9,
        replay=view.replay,
        gpus=tuple(gpu(device) for device in view.devices),
    )


def _owner(key: tuple[str, int], owned: Owners) -> str | None:
    rank = owned.ranks.get(key)
    if rank is not None:
        return f"{rank.replica}/{rank.engine} rank {rank.rank}"
    return None if key in owned.unclear else OTHER


def _launch(
    pid: int, told: ProcessRow | None, facts: ProcessFacts
) -> tuple[float | None, str | None]:
    """Start time and redacted command line."""
    launch = facts.launch(pid)
    if launch is not None:
        return launch.start_unix_s, redacted(launch.argv) or None
    return (told.start_unix_s, told.command) if told else (None, None)
