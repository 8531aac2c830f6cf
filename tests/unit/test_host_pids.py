"""Pids of the engine's own view become the driver's, or stay unknown."""

from collections.abc import Collection, Mapping

import pytest

from exporter.pipeline.host_pids import HostPids
from exporter.records.process import Launch
from tests.readings import UUID
from tests.workers import worker

FAR = "GPU-00000000-0000-0000-0000-00000000000b"
OWN = 20  # the worker's pid in its own view
STALE = 2.1


class Namespaces:
    """Tells the own pids that a test gave it."""

    def __init__(self, own_pids: Mapping[int, int]) -> None:
        self.told = own_pids

    def own_pids(self, pids: Collection[int], _now_s: float) -> Mapping[int, int]:
        return {pid: self.told[pid] for pid in pids if pid in self.told}

    def launch(self, _pid: int) -> Launch | None:
        return None


def host_pids_of(
    host_pids: HostPids, listed: Mapping[str, Collection[int]], age_intervals: float = 0.4
) -> list[int | None]:
    """Host pids of the one worker after one more reading; empty when it was left out."""
    host_pids.refresh(listed, 0.0)
    workers = [worker(None, torch_age_intervals=age_intervals)]
    placed = host_pids.with_host_pids(workers, listed)
    host_pids.remember(placed, {})
    return [worker.host_pid for worker in placed]


@pytest.mark.parametrize(
    ("own_pids", "listed", "expected"),
    [
        pytest.param({2654: 20, 77: 77}, {UUID: [2654, 77]}, 2654, id="in a container"),
        pytest.param({20: 20, 77: 77}, {UUID: [20, 77]}, 20, id="on the host"),
        pytest.param({2654: 20, 99: 20}, {UUID: [2654, 99]}, None, id="two containers, one number"),
        pytest.param({2654: 20, 99: 20}, {UUID: [2654], FAR: [99]}, 2654, id="only its own GPU"),
        pytest.param({77: 77}, {UUID: [2654, 77]}, None, id="not told"),
        pytest.param({}, {FAR: [2654]}, None, id="its GPU lists no processes"),
    ],
)
def test_b6_a_worker_is_the_process_of_its_gpu_that_has_its_pid(
    own_pids: Mapping[int, int], listed: Mapping[str, Collection[int]], expected: int | None
) -> None:
    assert host_pids_of(HostPids(Namespaces(own_pids)), listed) == [expected]


def test_what_the_ledger_found_is_kept_while_the_workers_process_is_the_same() -> None:
    host_pids = HostPids(Namespaces({}))
    listed = {UUID: [2654]}
    host_pids.refresh(listed, 0.0)
    (unknown,) = host_pids.with_host_pids([worker(None)], listed)
    assert unknown.host_pid is None
    host_pids.remember([unknown], {unknown.key: 2654})
    assert host_pids_of(host_pids, {UUID: [2654, 99]}) == [2654]
    assert host_pids_of(host_pids, {UUID: [99]}) == [2654]
    (restarted,) = host_pids.with_host_pids([worker(None, pid=21)], {UUID: [99]})
    assert restarted.host_pid is None


def test_a_translation_beats_what_the_ledger_found() -> None:
    namespaces = Namespaces({})
    host_pids = HostPids(namespaces)
    first = worker(None)
    host_pids.remember([first], {first.key: 99})
    namespaces.told = {2654: OWN}
    assert host_pids_of(host_pids, {UUID: [2654, 99]}) == [2654]


@pytest.mark.parametrize(
    ("own_pids", "age_intervals", "stays"),
    [
        pytest.param({77: 77}, STALE, False, id="silent, and every process is another"),
        pytest.param({77: 77}, 0.4, True, id="not silent"),
        pytest.param({}, STALE, True, id="silent, but the process is not told"),
        pytest.param({77: OWN}, STALE, True, id="silent, but there"),
    ],
)
def test_a_silent_worker_is_left_out_once_it_is_certainly_gone(
    own_pids: Mapping[int, int], age_intervals: float, stays: bool
) -> None:
    host_pids = HostPids(Namespaces(own_pids))
    assert bool(host_pids_of(host_pids, {UUID: [77]}, age_intervals)) is stays


def test_engines_processes_are_looked_for_on_the_gpus_of_their_workers() -> None:
    host_pids = HostPids(Namespaces({500: 10, 600: 10, 700: 30}))
    host_pids.refresh({UUID: [500], FAR: [600, 700]}, 0.0)
    engine, silent = ("node-1", "0"), ("node-2", "0")
    assert host_pids.of_engines({engine: [10, 11]}, [worker()]) == {500}
    assert host_pids.of_engines({silent: [30]}, [worker()]) == {700}
    assert host_pids.of_engines({silent: [10]}, []) == frozenset()
