"""Processes that share a name."""

from exporter.history.identities import FORGET_S, MAX_SLOTS, Identities
from exporter.records.trace import EngineRecord, KvRecord, TorchRecord


def kv(pid: int | None, replica: str = "node-1") -> KvRecord:
    return KvRecord(v=1, ts_unix_ns=1, pid=pid, replica=replica, engine="0", interval_s=1.0)


def torch(pid: int, rank: int) -> TorchRecord:
    return TorchRecord(
        v=1, ts_unix_ns=1, pid=pid, replica="node-1", engine="0", interval_s=1.0, rank=rank
    )


def facts(pid: int, role: str = "engine", rank: int | None = None) -> EngineRecord:
    return EngineRecord(
        v=1, ts_unix_ns=1, pid=pid, replica="node-1", engine="0", interval_s=30.0, role=role,
        rank=rank,
    )  # fmt: skip


def test_one_process_keeps_its_name() -> None:
    identities = Identities()
    assert [identities.replica_of(kv(10), at_s) for at_s in (0.0, 1.0, 2.0)] == ["node-1"] * 3
    assert identities.duplicates(2.0) == 0


def test_a_second_live_process_is_shown_with_its_pid_and_counted() -> None:
    identities = Identities()
    assert identities.replica_of(kv(10), 0.0) == "node-1"
    assert identities.replica_of(kv(11), 0.5) == "node-1#11"
    assert identities.replica_of(kv(10), 1.0) == "node-1"
    assert identities.duplicates(1.0) == 1


def test_a_name_is_kept_for_as_long_as_its_process_lives() -> None:
    identities = Identities()
    identities.replica_of(kv(10), 0.0)
    names = {identities.replica_of(kv(11), float(at_s)) for at_s in range(1, 20)}
    assert names == {"node-1#11"}


def test_a_dead_process_gives_its_name_to_the_next_one() -> None:
    identities = Identities()
    identities.replica_of(kv(10), 0.0)
    assert identities.replica_of(kv(11), 3.1) == "node-1"
    assert identities.duplicates(3.1) == 0


def test_a_process_is_dead_after_its_shortest_interval_although_its_facts_come_rarely() -> None:
    identities = Identities()
    identities.replica_of(facts(10), 0.0)
    identities.replica_of(kv(10), 0.0)
    assert identities.replica_of(facts(11), 20.0) == "node-1"


def test_ranks_of_one_engine_are_no_duplicates() -> None:
    identities = Identities()
    names = [identities.replica_of(torch(20 + rank, rank), 0.0) for rank in range(4)]
    assert names == ["node-1"] * 4


def test_the_facts_that_each_rank_tells_of_itself_make_no_duplicate() -> None:
    identities = Identities()
    records = [facts(10), *(facts(20 + rank, "worker", rank) for rank in range(4))]
    assert {identities.replica_of(record, 0.0) for record in records} == {"node-1"}
    assert identities.duplicates(0.0) == 0
    assert identities.replica_of(facts(30, "worker", 3), 1.0) == "node-1#30"


def test_other_replicas_are_no_duplicates() -> None:
    identities = Identities()
    assert identities.replica_of(kv(10, "node-1"), 0.0) == "node-1"
    assert identities.replica_of(kv(11, "node-2"), 0.0) == "node-2"


def test_silent_processes_are_forgotten() -> None:
    identities = Identities()
    for pid in range(1000):
        identities.replica_of(kv(pid), pid * 10.0)
    identities.forget(10_000.0 + FORGET_S)
    assert identities._engines == {}


def test_b4_beyond_all_bounds_nobody_new_gets_a_name_until_the_silent_are_forgotten() -> None:
    identities = Identities()
    names = [identities.replica_of(kv(10, f"node-{n}"), 0.0) for n in range(MAX_SLOTS + 2)]
    assert names[-3:] == [f"node-{MAX_SLOTS - 1}", None, None]
    assert identities.replica_of(kv(10, "node-0"), 1.0) == "node-0"
    assert identities.replica_of(facts(10), 1.0) is None
    assert identities.refused == 3
    identities.forget(FORGET_S + 0.5)
    assert identities.replica_of(facts(10), FORGET_S + 0.5) == "node-1"
    assert identities.refused == 3
