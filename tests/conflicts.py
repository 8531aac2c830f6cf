"""Feeds readings of a small machine to conflict detection, by hand or from a recording."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from exporter.analysis.conflict_signs import ConflictRules
from exporter.analysis.conflicts import ConflictState, advance
from exporter.analysis.ledger import ledgers
from exporter.analysis.worker import Worker
from exporter.records.conflict import Conflict
from exporter.records.device import DeviceMemory, DeviceSample, ProcessMemory
from tests.ledgers import moments
from tests.readings import UUID
from tests.workers import worker

MIB = 2**20
FAR = "GPU-00000000-0000-0000-0000-00000000000b"
SERVING = (worker(),)

Held = Mapping[int, int | None]
"""MiB by pid; None: the driver does not say."""


def gpu(
    held: Held | None, names: Mapping[int, str] | None = None, free_mib: int = 4000
) -> DeviceSample:
    """A GPU of which all memory but `free_mib` and 100 MiB of the driver is in its processes."""
    used_bytes = sum(mib or 0 for mib in (held or {}).values()) * MIB
    rows = [
        ProcessMemory(
            pid=pid,
            used_bytes=None if mib is None else mib * MIB,
            name=(names or {}).get(pid),
        )
        for pid, mib in (held or {}).items()
    ]
    return DeviceSample(
        memory=DeviceMemory(
            total_bytes=used_bytes + (free_mib + 100) * MIB,
            used_bytes=used_bytes,
            free_bytes=free_mib * MIB,
            reserved_bytes=100 * MIB,
        ),
        processes=None if held is None else tuple(rows),
    )


class Watch:
    """Keeps the state between readings. `told` is everything told so far."""

    def __init__(self, rules: ConflictRules | None = None) -> None:
        self.state = ConflictState()
        self.told: list[Conflict] = []
        self._rules = rules or ConflictRules()

    def ended_unix_ns(self, event_id: int) -> int | None:
        """When a conflict ended; None while it goes on."""
        return self.state.events[event_id].ended_unix_ns

    def see(
        self,
        at_s: float,
        near: DeviceSample | None,
        far: DeviceSample | None = None,
        workers: Sequence[Worker] = SERVING,
    ) -> tuple[Conflict, ...]:
        """Take one reading of the engine's GPU and, if given, of a second one; what it told."""
        samples = {UUID: near} if far is None else {UUID: near, FAR: far}
        found = ledgers(samples, workers)
        step = advance(self.state, self._rules, round(at_s * 1e9), samples, workers, found)
        self.state = step.state
        self.told += step.told
        return step.told

    def play(self, recording: Path) -> None:
        """Take all readings of a recording."""
        for moment in moments(recording):
            samples = {device.facts.uuid: device.sample for device in moment.reading.devices}
            step = advance(
                self.state,
                self._rules,
                moment.reading.ts_unix_ns,
                samples,
                moment.workers,
                moment.ledgers,
            )
            self.state = step.state
            self.told += step.told
