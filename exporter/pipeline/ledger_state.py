"""Ledgers and conflicts between device readings; the rules of both are analysis's."""

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import get_args

from msgspec.structs import replace

from exporter.analysis.conflict_signs import ConflictRules
from exporter.analysis.conflicts import ConflictState, advance, described
from exporter.analysis.ledger import ledgers
from exporter.analysis.redaction import redacted
from exporter.analysis.worker import Worker, WorkerKey
from exporter.pipeline.host_pids import EngineKey, HostPids
from exporter.pipeline.mig_places import samples_of
from exporter.records.conflict import Conflict, ConflictKind, ProcessRow
from exporter.records.device import DeviceReading
from exporter.records.ledger import Ledger, LedgerReason, Owner
from exporter.records.process import ProcessFacts

MAX_LAUNCHES = 64  # looked up at one reading; each takes some 100 µs

log = logging.getLogger(__name__)


class LedgerState:
    """Takes each device reading once; then tells ledgers and conflicts as of the newest one."""

    def __init__(self, rules: ConflictRules, processes: ProcessFacts) -> None:
        self.rules = rules
        self._processes = processes
        self._host_pids = HostPids(processes)
        self._conflicts = ConflictState()
        self._ledgers: dict[str, Ledger] = {}
        self._parts_bytes: dict[str, dict[WorkerKey, dict[Owner, int]]] = {}
        self._incoherent: Counter[str] = Counter(dict.fromkeys(get_args(LedgerReason), 0))

    @property
    def incoherent(self) -> dict[str, int]:
        """How often a GPU's split fell back to a coarser one, by `LedgerReason`."""
        return dict(self._incoherent)

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """The newest conflicts, oldest first."""
        return tuple(self._conflicts.events.values())

    def ledger(self, uuid: str) -> Ledger | None:
        """The GPU's ledger; None when it could not be read."""
        return self._ledgers.get(uuid)

    def parts_bytes(self, uuids: Collection[str]) -> dict[WorkerKey, dict[Owner, int]]:
        """Of each worker on these GPUs whose process could be told apart."""
        return {
            key: parts for uuid in uuids for key, parts in self._parts_bytes.get(uuid, {}).items()
        }

    def conflict_counts(self, uuid: str) -> dict[ConflictKind, int] | None:
        """The GPU's conflicts so far; None where no engine has served."""
        return self._conflicts.counts.get(uuid)

    def observe(
        self,
        reading: DeviceReading,
        workers: Sequence[Worker],
        engine_pids: Mapping[EngineKey, Collection[int]],
        now_s: float,
    ) -> None:
        """Take one reading.

        Args:
            workers: all that are remembered as of the reading, stale ones too; their host pids are
                found out here.
            engine_pids: pids by which the processes of each engine know themselves.
            now_s: monotonic seconds.
        """
        if not reading.devices:
            return  # a recording's tick without a device reading: it tells of no GPU
        samples = samples_of(reading)
        listed = {
            uuid: frozenset(process.pid for process in sample.processes)
            for uuid, sample in samples.items()
            if sample is not None and sample.processes is not None
        }
        self._host_pids.refresh(listed, now_s)
        placed = self._host_pids.with_host_pids(workers, listed)
        found = ledgers(samples, placed, self._host_pids.of_engines(engine_pids, placed))
        self._host_pids.remember(placed, found.worker_pids)
        self._ledgers, self._parts_bytes = found.by_uuid, found.parts_bytes
        self._incoherent.update(found.reasons)
        step = advance(self._conflicts, self.rules, reading.ts_unix_ns, samples, placed, found)
        self._conflicts = step.state
        if step.told:
            self._tell(
                step.told, {device.facts.uuid: device.facts.index for device in reading.devices}
            )

    def _tell(self, told: Sequence[Conflict], index_by_uuid: Mapping[str, int]) -> None:
        """Log each conflict, and complete its process table."""
        launches_left = MAX_LAUNCHES
        for conflict in told:
            log.warning("%s", _line(conflict, index_by_uuid.get(conflict.uuid)))
            rows = conflict.processes[:launches_left]
            launches_left -= len(rows)
            completed = tuple(self._with_launch(row) for row in rows)
            table = completed + conflict.processes[len(rows) :]
            self._conflicts = described(self._conflicts, conflict.id, table)

    def _with_launch(self, row: ProcessRow) -> ProcessRow:
        launch = self._processes.launch(row.pid)
        if launch is None:
            return row
        command = redacted(launch.argv) or None
        return replace(row, start_unix_s=launch.start_unix_s, command=command)


def _line(conflict: Conflict, index: int | None) -> str:
    own = (row for row in conflict.processes if row.pid == conflict.pid)
    name = next((row.name for row in own if row.name), "of unknown name")
    place = conflict.uuid if index is None else f"cuda:{index} ({conflict.uuid})"
    figure = (
        f"margin {conflict.margin_bytes} bytes"
        if conflict.margin_bytes is not None
        else f"grew by {conflict.growth_bytes.get(conflict.uuid, 0)} bytes"
    )
    return f"conflict {conflict.kind} on {place}: process {conflict.pid} ({name}), {figure}"
