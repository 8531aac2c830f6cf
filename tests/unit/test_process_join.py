"""Which process is the worker's when its pid could not be translated."""

from exporter.analysis.ledger import ledgers
from exporter.analysis.process_join import ProcessJoin, join_processes
from tests.readings import UUID
from tests.workers import OTHER_PID, WORKER_PID, sample, split, worker

UNKNOWN = worker(None)  # torch has reserved 500 bytes


def test_a_translated_pid_decides() -> None:
    known = worker(OTHER_PID)
    join = join_processes({WORKER_PID: 600, OTHER_PID: 90}, [known], {OTHER_PID})
    assert join == ProcessJoin({OTHER_PID: [known]}, frozenset())


def test_the_recorded_pid_alone_means_nothing_outside_its_container() -> None:
    join = join_processes({9000: 600, WORKER_PID: 90}, [UNKNOWN], set())
    assert join.workers == {9000: [UNKNOWN]}


def test_the_only_process_is_the_only_engines_whatever_it_holds() -> None:
    assert join_processes({9000: 1}, [UNKNOWN], set()).workers == {9000: [UNKNOWN]}


def test_a_process_smaller_than_reserved_is_not_the_workers() -> None:
    join = join_processes({9000: 500, 9001: 499}, [UNKNOWN], set())
    assert join == ProcessJoin({9000: [UNKNOWN]}, frozenset())


def test_two_that_could_be_it_are_unclear_and_a_third_is_not() -> None:
    join = join_processes({9000: 500, 9001: 501, 9002: 499}, [UNKNOWN], set())
    assert join == ProcessJoin({}, frozenset({9000, 9001}))


def test_when_none_is_large_enough_or_reserved_lies_all_are_unclear() -> None:
    small = {9000: 498, 9001: 499}
    assert join_processes(small, [UNKNOWN], set()).unclear_pids == {9000, 9001}
    asleep = worker(None, is_asleep=True)
    mixed = {9000: 500, 9001: 1}
    assert join_processes(mixed, [asleep], set()).unclear_pids == {9000, 9001}


def test_a_process_of_unknown_size_could_be_it() -> None:
    assert join_processes({9000: None, 9001: 1}, [UNKNOWN], set()).workers == {9000: [UNKNOWN]}


def test_processes_of_known_workers_are_out_of_the_question() -> None:
    join = join_processes({9000: 800, 9001: 600}, [UNKNOWN], {9000})
    assert join.workers == {9001: [UNKNOWN]}


def test_two_engines_of_unknown_pids_leave_all_unclear() -> None:
    join = join_processes({9000: 600, 9001: 600}, [UNKNOWN, worker(None, engine="1")], set())
    assert join == ProcessJoin({}, frozenset({9000, 9001}))


def test_a_stale_worker_beside_a_fresh_one_is_taken_for_dead() -> None:
    stale = worker(None, engine="1", torch_age_intervals=2.1)
    assert join_processes({9000: 600}, [stale, UNKNOWN], set()).workers == {9000: [UNKNOWN]}
    assert join_processes({9000: 600}, [stale], set()).workers == {9000: [stale]}


def test_unclear_processes_are_unsplit_and_what_is_certain_stays() -> None:
    gpu = sample({9000: 300, 9001: 310, OTHER_PID: 20})
    result = split(gpu, worker(None, reserved_bytes=300, allocated_bytes=290))
    owners = result.by_uuid[UUID].owners_bytes
    assert owners == {
        "driver_reserved": 100,
        "free": 180,
        "used_unsplit": 610,
        "other_processes": 20,
        "unattributed": 90,
    }
    assert result.by_uuid[UUID].effective_used_bytes is None
    assert result.by_uuid[UUID].reasons == ("pid_unknown",)
    assert result.unclear_pids == {9000, 9001}
    assert result.engine_pids == frozenset()
    assert result.serving_uuids == {UUID}


def test_an_engine_beside_unclear_processes_gives_no_effective_figure() -> None:
    gpu = sample({WORKER_PID: 100, 9000: 300, 9001: 310})
    known = worker(reserved_bytes=90, allocated_bytes=70, weights_bytes=None, kv_pool_bytes=0)
    unknown = worker(None, engine="1", reserved_bytes=300, allocated_bytes=290)
    ledger = split(gpu, known, unknown).by_uuid[UUID]
    assert ledger.owners_bytes["used_unsplit"] == 610
    assert ledger.owners_bytes["non_torch"] == 10
    assert ledger.effective_used_bytes is None


def test_a_worker_found_through_its_gpu_is_known_on_the_others() -> None:
    far = "GPU-00000000-0000-0000-0000-00000000000b"
    samples = {UUID: sample({9000: 600}), far: sample({9000: 54})}
    result = ledgers(samples, [UNKNOWN])
    assert result.engine_pids == {9000}
    assert result.by_uuid[far].owners_bytes["engine_unsplit"] == 54


def test_a_pid_found_through_the_gpu_can_be_handed_in_the_next_time() -> None:
    small = {"reserved_bytes": 300, "allocated_bytes": 290}
    unknown = worker(None, **small)
    alone = split(sample({9000: 310}), unknown)
    assert alone.worker_pids == {unknown.key: 9000}
    crowd = sample({9000: 310, 9001: 390})
    assert split(crowd, unknown).worker_pids == {}
    assert split(crowd, worker(9000, **small)).worker_pids == {unknown.key: 9000}
