"""The pipeline's ledgers and conflicts: which records they are made of, and what is looked up."""

import logging
from collections.abc import Collection, Mapping
from typing import get_args

import pytest

from exporter.analysis.conflict_signs import ConflictRules
from exporter.clock import ManualClock
from exporter.pipeline import Pipeline
from exporter.pipeline.ledger_state import MAX_LAUNCHES
from exporter.records.conflict import Conflict
from exporter.records.device import Device, DeviceFacts, DeviceSample
from exporter.records.ledger import Ledger, LedgerReason
from exporter.records.process import Launch, ProcessFacts
from exporter.records.source import Reading
from exporter.records.trace import TorchRecord
from exporter.records.view import DeviceView, View
from tests.conflicts import MIB, gpu
from tests.readings import (
    START_UNIX_NS,
    UUID,
    blocks,
    device_reading,
    facts,
    kv,
    torch,
    trace_reading,
)

WORKER, STRANGER = 20, 77
POOL_BYTES = 101 * MIB  # `blocks` makes pools of 101 blocks


class Launches:
    """Every process is its own pid in every view, and was started with a secret."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def own_pids(self, pids: Collection[int], _now_s: float) -> Mapping[int, int]:
        return {pid: pid for pid in pids}

    def launch(self, pid: int) -> Launch | None:
        self.asked.append(pid)
        return Launch(1000.5 + pid, ("train.py", "--token", f"secret-{pid}"))


class Machine:
    """One GPU with an engine's worker of 600 MiB, on a manual clock."""

    def __init__(
        self, processes: ProcessFacts | None = None, rules: ConflictRules | None = None
    ) -> None:
        self._clock = ManualClock(START_UNIX_NS, monotonic_s=5000.0)
        self._pipeline = Pipeline(self._clock, 0.5, rules=rules, processes=processes)
        self._now_s = 0.0

    def at(self, now_s: float, *readings: Reading) -> View:
        self._clock.advance(now_s - self._now_s)
        self._now_s = now_s
        for reading in readings:
            self._pipeline.offer(reading)
        return self._pipeline.tick()

    def gpu_at(self, now_s: float, *readings: Reading) -> DeviceView:
        (device,) = self.at(now_s, *readings).devices
        return device

    def ledger_at(self, now_s: float, *readings: Reading) -> Ledger:
        ledger = self.gpu_at(now_s, *readings).ledger
        assert ledger is not None
        return ledger

    def conflict_with(self, held: Mapping[int, int]) -> Conflict:
        """The conflict told once these processes (MiB by pid) have come beside the worker."""
        self.at(0.0, engine(), sampled(0.0, {WORKER: 600}))
        for at_s in (0.5, 1.0):
            view = self.at(at_s, engine(at_s), sampled(at_s, {WORKER: 600, **held}))
        (conflict,) = view.conflicts
        return conflict


def sampled(at_s: float, held: Mapping[int, int]) -> Reading:
    """A reading of the GPU with these processes (MiB by pid)."""
    return read(at_s, gpu(held, names={STRANGER: "train.py"}))


def read(at_s: float, sample: DeviceSample | None) -> Reading:
    return device_reading(Device(facts=DeviceFacts(index=3, uuid=UUID), sample=sample), at_s=at_s)


def allocator(at_s: float, **fields: object) -> TorchRecord:
    figures = {
        "reserved_bytes": 500 * MIB,
        "allocated_bytes": 400 * MIB,
        "kv_pool_bytes": POOL_BYTES,
        **fields,
    }
    return torch(at_s, **figures)


def engine(at_s: float = 0.0) -> Reading:
    """The worker's record, and 25 blocks active, 30 cached, 45 free of the plugin's scheduler."""
    return trace_reading(kv(at_s, blocks=blocks(25, cached=30)), allocator(at_s))


def test_every_byte_of_the_gpu_has_an_owner() -> None:
    ledger = Machine().ledger_at(0.0, engine(), sampled(0.0, {WORKER: 600, STRANGER: 90}))
    assert {owner: value / MIB for owner, value in ledger.owners_bytes.items()} == {
        "driver_reserved": 100,
        "free": 4000,
        "unattributed": 0,
        "other_processes": 90,
        "kv_active": 25,
        "kv_cached": 30,
        "kv_free": 45,
        "kv_null": 1,
        "torch_other": 299,
        "allocator_slack": 100,
        "non_torch": 100,
    }
    assert ledger.effective_used_bytes == (690 - 30 - 45 - 100) * MIB


def test_the_ledger_goes_with_its_sample() -> None:
    machine = Machine()
    machine.at(0.0, engine(), sampled(0.0, {WORKER: 600}))
    assert machine.gpu_at(1.5).ledger is not None
    assert machine.gpu_at(1.6).ledger is None
    assert machine.gpu_at(2.0, sampled(2.0, {WORKER: 600})).ledger is not None
    assert machine.gpu_at(2.5, read(2.5, None)).ledger is None


def test_a_uuid_without_prefix_is_the_same_gpu() -> None:
    bare = allocator(0.0, uuid=UUID.removeprefix("GPU-"))
    ledger = Machine().ledger_at(0.0, trace_reading(bare), sampled(0.0, {WORKER: 600}))
    assert ledger.owners_bytes["non_torch"] == 100 * MIB


def test_a_silent_worker_stays_its_engines_until_it_is_forgotten() -> None:
    machine = Machine()
    machine.at(0.0, engine(), sampled(0.0, {WORKER: 600}))
    for at_s in (2.5, 100.0, 600.0):
        ledger = machine.ledger_at(at_s, sampled(at_s, {WORKER: 600}))
        assert ledger.owners_bytes["engine_unsplit"] == 600 * MIB
        assert ledger.reasons == ("stale",)
    ledger = machine.ledger_at(601.0, sampled(601.0, {WORKER: 600}))
    assert ledger.owners_bytes["other_processes"] == 600 * MIB


def test_blocks_come_from_the_best_origin_that_is_young_enough_and_tells_of_them() -> None:
    machine = Machine()
    told = trace_reading(
        kv(0.0, blocks=blocks(25, cached=30)),
        kv(2.0, pid=None, origin="metrics", blocks=blocks(60)),
        kv(2.0, pid=None, origin="log", usage_ratio=0.9),
        allocator(2.0),
    )
    young = machine.ledger_at(2.0, told, sampled(2.0, {WORKER: 600}))
    assert young.owners_bytes["kv_active"] == 25 * MIB
    older = machine.ledger_at(2.9, sampled(2.9, {WORKER: 600}))
    assert older.owners_bytes["kv_active"] == 60 * MIB
    assert older.reasons == ()


def test_an_engines_facts_say_that_it_sleeps() -> None:
    told = trace_reading(facts(sleep_level=1), allocator(0.0))
    ledger = Machine().ledger_at(0.0, told, sampled(0.0, {WORKER: 600}))
    assert ledger.reasons == ("asleep",)


def test_a_schedulers_own_process_belongs_to_its_engine() -> None:
    machine = Machine(Launches())
    held = {WORKER: 600, 10: 40}  # process 10 tells of the scheduler
    ledger = machine.ledger_at(0.0, engine(), sampled(0.0, held))
    assert ledger.owners_bytes["engine_unsplit"] == 40 * MIB
    assert ledger.owners_bytes["other_processes"] == 0


def test_each_reading_with_a_coarser_split_is_counted_by_its_reason() -> None:
    machine = Machine()
    view = machine.at(0.0, engine(), sampled(0.0, {WORKER: 600}))
    assert view.ledger_incoherent == dict.fromkeys(get_args(LedgerReason), 0)
    for at_s in (2.5, 3.0):
        view = machine.at(at_s, sampled(at_s, {WORKER: 600}))
    assert machine.at(3.1).ledger_incoherent["stale"] == 2
    assert view.ledger_incoherent["contradictory"] == 0


def test_conflicts_are_counted_from_when_an_engine_serves() -> None:
    machine = Machine()
    assert machine.gpu_at(0.0, sampled(0.0, {STRANGER: 900})).conflicts is None
    device = machine.gpu_at(0.5, engine(0.5), sampled(0.5, {WORKER: 600, STRANGER: 900}))
    assert device.conflicts == {"co_tenant": 0, "pressure": 0, "margin": 0}
    for at_s in (1.0, 1.5, 2.0):
        view = machine.at(at_s, engine(at_s), sampled(at_s, {WORKER: 600, STRANGER: 1200}))
    assert view.devices[0].conflicts == {"co_tenant": 1, "pressure": 0, "margin": 0}
    (conflict,) = view.conflicts
    assert (conflict.kind, conflict.pid, conflict.growth_bytes) == (
        "co_tenant",
        STRANGER,
        {UUID: 300 * MIB},
    )
    assert conflict.ts_unix_ns == START_UNIX_NS + 1_000_000_000


def test_a_conflict_has_the_table_of_processes_with_redacted_command_lines() -> None:
    conflict = Machine(Launches()).conflict_with({STRANGER: 300})
    assert [(row.pid, row.start_unix_s, row.command) for row in conflict.processes] == [
        (WORKER, 1020.5, "train.py --token ***"),
        (STRANGER, 1077.5, "train.py --token ***"),
    ]


def test_a_recorded_process_is_never_looked_up() -> None:
    conflict = Machine().conflict_with({STRANGER: 300})
    assert {(row.start_unix_s, row.command) for row in conflict.processes} == {(None, None)}


def test_processes_are_looked_up_once_and_not_too_many_at_a_time() -> None:
    launches = Launches()
    machine = Machine(launches)
    many = dict.fromkeys(range(1000, 1000 + MAX_LAUNCHES), 10)
    conflict = machine.conflict_with({**many, STRANGER: 300})
    assert len(launches.asked) == MAX_LAUNCHES
    assert len(conflict.processes) == MAX_LAUNCHES + 2
    assert sum(row.command is None for row in conflict.processes) == 2
    machine.at(1.5, engine(1.5), sampled(1.5, {WORKER: 600, **many, STRANGER: 300}))
    assert len(launches.asked) == MAX_LAUNCHES


def test_a_conflict_is_logged_once_without_command_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine = Machine(Launches())
    with caplog.at_level(logging.WARNING):
        machine.conflict_with({STRANGER: 300})
        machine.at(1.5, engine(1.5), sampled(1.5, {WORKER: 600, STRANGER: 300}))
    (line,) = caplog.messages
    assert line == (
        f"conflict co_tenant on cuda:3 ({UUID}): process {STRANGER} (train.py),"
        f" grew by {300 * MIB} bytes"
    )


def test_a_reading_without_gpus_ends_no_conflict_and_counts_nothing() -> None:
    machine = Machine()
    held = {WORKER: 600, STRANGER: 300}
    machine.conflict_with({STRANGER: 300})
    machine.at(1.5, engine(1.5), device_reading(at_s=1.5))
    view = machine.at(2.0, engine(2.0), sampled(2.0, held))
    (conflict,) = view.conflicts
    assert conflict.ended_unix_ns is None
    assert view.ledger_incoherent["unknown_gpu"] == 0


def test_an_expected_process_is_no_co_tenant() -> None:
    machine = Machine(rules=ConflictRules(expected_processes=frozenset({"train.py"})))
    machine.at(0.0, engine(), sampled(0.0, {WORKER: 600}))
    for at_s in (0.5, 1.0, 1.5):
        view = machine.at(at_s, engine(at_s), sampled(at_s, {WORKER: 600, STRANGER: 300}))
    assert view.conflicts == ()


@pytest.mark.parametrize("interval_s", [0.1, 0.5])
def test_a_co_tenant_is_told_within_two_and_a_half_sampling_intervals(interval_s: float) -> None:
    machine = Machine()
    machine.at(0.0, engine(), sampled(0.0, {WORKER: 600}))
    onset_s = interval_s / 1000  # just after a reading: the worst moment
    step = 0
    while not machine.at(step * interval_s).conflicts:
        step += 1
        at_s = step * interval_s
        machine.at(at_s, engine(at_s), sampled(at_s, {WORKER: 600, STRANGER: 300}))
    assert step * interval_s - onset_s <= 2.5 * interval_s


def test_a_margin_below_zero_is_told_of_the_worker() -> None:
    machine = Machine()
    needs = {"device_free_bytes": 0, "allocated_peak_bytes": 501 * MIB, "inactive_split_bytes": 0}
    told = trace_reading(kv(blocks=blocks(25, cached=30)), allocator(0.0, **needs))
    (conflict,) = machine.at(0.0, told, sampled(0.0, {WORKER: 600})).conflicts
    assert (conflict.kind, conflict.pid, conflict.margin_bytes) == ("margin", WORKER, -MIB)
