"""Which process is whose, and what is shown of it."""

from typing import Any

import pytest
from msgspec.structs import replace

from exporter.analysis.process_owners import owners
from exporter.commands.process_rows import OTHER, Machine, machine
from exporter.records.device import ProcessMemory
from exporter.records.process import Launch, RecordedProcesses
from exporter.records.view import View
from tests.diagnosing import at, changed, gpu
from tests.views import co_tenant, gpu_uuid

FAR = gpu_uuid(1)


class Launches(RecordedProcesses):
    """Of this machine only process 4100 is known."""

    def launch(self, pid: int) -> Launch | None:
        argv = ("python", "serve.py", "--api-key", "hunter22")
        return Launch(1_795_950_000.5, argv) if pid == 4100 else None


def listed(*held: tuple[int, int | None]) -> tuple[ProcessMemory, ...]:
    return tuple(ProcessMemory(pid=pid, used_bytes=used) for pid, used in held)


def owner_by_pid(view: View) -> dict[int, str | None]:
    (near, *_) = machine(view, RecordedProcesses(), shows_commands=False).gpus
    return {process.pid: process.owner for process in near.processes or ()}


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ([(4100, 520), (4101, 60)], {4100: "blue-0/0 rank 0", 4101: OTHER}),
        ([(9000, 520), (4101, 60)], {9000: "blue-0/0 rank 0", 4101: OTHER}),
        ([(4100, 60), (9000, 520)], {4100: OTHER, 9000: "blue-0/0 rank 0"}),
        ([(9000, 520), (9001, 530)], {9000: None, 9001: None}),
        ([(4100, None), (4101, 60)], {4100: "blue-0/0 rank 0", 4101: OTHER}),
    ],
    ids=[
        "same pid",
        "another pid, the only one large enough",
        "same pid but too small to be it",
        "one of two",
        "bytes not told",
    ],
)
def test_a_process_is_a_workers_by_pid_or_because_no_other_can_be(
    held: list[tuple[int, int | None]], expected: dict[int, str | None]
) -> None:
    view = at(0, devices=(gpu(sample__processes=listed(*held)),))
    assert owner_by_pid(view) == expected


def test_a_worker_owns_its_process_on_gpus_that_it_merely_touches() -> None:
    near = gpu(sample__processes=listed((4100, 520)))
    far = gpu(facts__index=1, facts__uuid=FAR, sample__processes=listed((4100, 500), (4200, 600)))
    found = owners(at(0, devices=(near, far)))
    assert {key: of.rank for key, of in found.ranks.items()} == {
        (gpu_uuid(0), 4100): 0,
        (FAR, 4100): 0,
    }
    assert found.unclear == frozenset()


def test_without_workers_every_process_is_of_no_known_engine() -> None:
    assert set(owner_by_pid(at(0, ranks=())).values()) == {OTHER}


def test_a_gpu_whose_processes_are_not_told_has_none_rather_than_an_empty_list() -> None:
    dark = gpu(facts__index=1, facts__uuid=FAR, sample=None, is_up=False)
    hidden = gpu(sample__processes=None)
    view = at(0, devices=(hidden, dark))
    first, second = machine(view, RecordedProcesses(), shows_commands=False).gpus
    assert (first.processes, first.used_bytes) == (None, 600)
    assert (second.processes, second.used_bytes, second.total_bytes) == (None, None, None)


def rows(view: View, **options: Any) -> Machine:
    return machine(view, Launches(), **{"shows_commands": True, **options})


def test_rows_stand_by_memory_with_their_share_of_the_gpu() -> None:
    (near,) = rows(
        at(0, devices=(gpu(sample__processes=listed((1, 50), (2, 250), (3, None))),))
    ).gpus
    told = [(each.pid, each.used_bytes, each.share_ratio) for each in near.processes or ()]
    assert told == [(2, 250, 0.25), (1, 50, 0.05), (3, None, None)]


def test_start_times_and_redacted_command_lines_are_this_machines_or_a_conflicts() -> None:
    other, *_ = co_tenant().processes
    conflict = replace(
        co_tenant(), processes=(replace(other, start_unix_s=1.5, command="train.py"),)
    )
    (near,) = rows(at(0, conflicts=(conflict,))).gpus
    told = {each.pid: (each.start_unix_s, each.command) for each in near.processes or ()}
    assert told == {
        4100: (1_795_950_000.5, "python serve.py --api-key ***"),
        4101: (1.5, "train.py"),
    }


def test_command_lines_are_shown_only_on_request() -> None:
    (near,) = rows(at(0, conflicts=(co_tenant(),)), shows_commands=False).gpus
    assert [each.command for each in near.processes or ()] == [None, None]


def test_a_conflict_that_is_over_tells_nothing_of_a_process_that_may_be_another() -> None:
    over = changed(co_tenant(), ended_unix_ns=co_tenant().ts_unix_ns + 1)
    (near,) = rows(at(0, conflicts=(over,))).gpus
    assert {each.start_unix_s for each in near.processes or () if each.pid == 4101} == {None}
