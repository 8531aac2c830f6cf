"""Every byte has one owner; what cannot be told apart falls to a coarser owner and says why."""

from typing import Any

import pytest

from exporter.analysis.ledger import ledgers
from exporter.records.device import DeviceMemory, DeviceSample
from tests.readings import UUID, blocks, facts, kv
from tests.workers import OTHER_PID, WORKER_PID, ledger, sample, split, worker

OUTSIDE = {"driver_reserved": 100, "free": 180, "other_processes": 90, "unattributed": 30}
INSIDE = {
    "weights": 150,
    "kv_active": 50,  # 25 blocks of 202 / 101 = 2 bytes
    "kv_cached": 60,
    "kv_free": 90,  # 100 usable − 25 active − 30 cached
    "kv_null": 2,
    "graph_pool": 30,  # of which tensors hold 10 and nobody 20
    "torch_other": 58,  # 420 − 150 − 202 − 10
    "allocator_slack": 60,  # 500 − 420 − 20
    "non_torch": 100,
}
UNSPLIT = {**OUTSIDE, "engine_unsplit": 600}


def test_c10_every_part_that_is_told_has_its_owner() -> None:
    result = ledger(sample(), worker())
    assert result.owners_bytes == {**OUTSIDE, **INSIDE}
    assert sum(result.owners_bytes.values()) == 1000
    assert result.effective_used_bytes == 720 - 60 - 90 - 60
    assert result.reasons == ()


class TestPartsThatNoSourceGives:
    def test_unknown_weights_and_graph_pool_stay_in_torch_other(self) -> None:
        bare = worker(weights_bytes=None, graph_pool_bytes=None, graph_pool_allocated_bytes=None)
        owners = ledger(sample(), bare).owners_bytes
        assert "weights" not in owners
        assert "graph_pool" not in owners
        assert owners["torch_other"] == 420 - 202
        assert owners["allocator_slack"] == 80

    def test_cached_and_free_blocks_known_only_together_are_kv_unsplit(self) -> None:
        result = ledger(sample(), worker(kv=kv(blocks=blocks(25))))
        assert result.owners_bytes["kv_unsplit"] == 150
        assert not {"kv_cached", "kv_free"} & set(result.owners_bytes)
        assert result.effective_used_bytes == 720 - 150 - 60

    @pytest.mark.parametrize(
        "changes",
        [{"kv": None}, {"kv": kv()}, {"kv_pool_bytes": None}],
        ids=["no scheduler", "no blocks", "no pool bytes"],
    )
    def test_kv_blocks_of_unknown_state_or_size_stay_in_torch_other(
        self, changes: dict[str, Any]
    ) -> None:
        result = ledger(sample(), worker(**changes))
        assert not [owner for owner in result.owners_bytes if owner.startswith("kv_")]
        assert result.owners_bytes["torch_other"] == 420 - 150 - 10
        assert result.effective_used_bytes is None
        assert result.reasons == ()

    def test_without_facts_the_pool_itself_says_how_many_blocks_there_are(self) -> None:
        assert ledger(sample(), worker(facts=None)).owners_bytes == {**OUTSIDE, **INSIDE}

    def test_what_a_pool_has_beyond_whole_blocks_stays_in_torch_other(self) -> None:
        owners = ledger(sample(), worker(kv_pool_bytes=210)).owners_bytes
        # 210 / 101 bytes a block: 25 → 51.9, 30 → 62.3, 45 → 93.5, 1 → 2.0; 2 of 210 are left
        assert [owners[key] for key in ("kv_active", "kv_cached", "kv_free", "kv_null")] == [
            51,
            62,
            93,
            2,
        ]
        assert owners["torch_other"] == 420 - 150 - 10 - 208

    def test_a_graph_pool_of_unknown_use_counts_as_given_to_tensors(self) -> None:
        owners = ledger(sample(), worker(graph_pool_allocated_bytes=None)).owners_bytes
        assert owners["graph_pool"] == 30
        assert owners["torch_other"] == 420 - 150 - 202 - 30
        assert owners["allocator_slack"] == 80

    def test_a_graph_pool_that_tensors_cannot_fill_is_not_told_apart(self) -> None:
        # other tensors are 68 and slack 80: a pool of 100 lies in both, nobody says how
        pool = {"graph_pool_bytes": 100, "graph_pool_allocated_bytes": None}
        result = ledger(sample(), worker(**pool))
        assert "graph_pool" not in result.owners_bytes
        assert result.owners_bytes["torch_other"] == 68
        assert result.reasons == ()

    def test_memory_v1_does_not_tell_what_the_driver_reserves(self) -> None:
        v1 = DeviceMemory(total_bytes=1000, used_bytes=820, free_bytes=180)
        owners = ledger(sample(memory=v1), worker()).owners_bytes
        assert "driver_reserved" not in owners
        assert owners["unattributed"] == 130
        assert sum(owners.values()) == 1000


class TestFallingBackForOneProcess:
    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"torch_age_intervals": 2.1}, "stale"),
            ({"kv_age_intervals": 2.1}, "stale"),
            ({"is_asleep": True}, "asleep"),
            ({"facts": facts(sleep_level=1)}, "asleep"),
            ({"has_pluggable_allocator": True}, "pluggable_allocator"),
            ({"reserved_bytes": None}, "torch_unknown"),
            ({"allocated_bytes": None}, "torch_unknown"),
            ({"reserved_bytes": 601}, "contradictory"),
            ({"weights_bytes": 211}, "contradictory"),
            ({"kv_pool_bytes": 421}, "contradictory"),
            ({"facts": facts(num_gpu_blocks=100)}, "contradictory"),
            ({"graph_pool_bytes": 9}, "contradictory"),
            ({"graph_pool_allocated_bytes": 69}, "contradictory"),
            ({"graph_pool_bytes": 149, "graph_pool_allocated_bytes": None}, "contradictory"),
        ],
    )
    def test_a_split_that_cannot_be_trusted_is_not_made(
        self, changes: dict[str, Any], reason: str
    ) -> None:
        result = split(sample(), worker(**changes))
        assert result.by_uuid[UUID].owners_bytes == UNSPLIT
        assert result.by_uuid[UUID].effective_used_bytes is None
        assert result.by_uuid[UUID].reasons == (reason,)
        assert result.reasons == {reason: 1}

    def test_a_record_of_exactly_twice_its_interval_is_still_used(self) -> None:
        aged = worker(torch_age_intervals=2.0, kv_age_intervals=2.0)
        assert ledger(sample(), aged).owners_bytes == {**OUTSIDE, **INSIDE}
        assert split(sample(), aged).serving_uuids == {UUID}

    def test_two_workers_of_one_process_contradict_each_other(self) -> None:
        result = ledger(sample(), worker(), worker(rank=1))
        assert result.owners_bytes == UNSPLIT
        assert result.reasons == ("contradictory",)

    def test_one_engine_that_is_unsplit_leaves_the_other_split(self) -> None:
        gpu = sample({WORKER_PID: 600, OTHER_PID: 90})
        small = worker(OTHER_PID, engine="1", reserved_bytes=91, allocated_bytes=80)
        owners = ledger(gpu, worker(), small).owners_bytes
        assert owners["engine_unsplit"] == 90
        assert owners["weights"] == 150
        assert owners["other_processes"] == 0

    def test_two_engines_on_one_gpu_add_up(self) -> None:
        gpu = sample({WORKER_PID: 400, 21: 300})
        first = worker(reserved_bytes=390, allocated_bytes=380, graph_pool_bytes=None)
        second = worker(
            21, engine="1", reserved_bytes=250, allocated_bytes=240, kv=None, graph_pool_bytes=None
        )
        result = ledger(gpu, first, second)
        assert result.owners_bytes["weights"] == 300
        assert result.owners_bytes["non_torch"] == 10 + 50
        assert result.owners_bytes["allocator_slack"] == 20
        assert result.effective_used_bytes is None  # the second's blocks are not known


class TestFallingBackForTheGpu:
    @pytest.mark.parametrize(
        ("gpu", "reason"),
        [
            (sample({WORKER_PID: 600, OTHER_PID: 121}), "processes_exceed_used"),
            (sample({WORKER_PID: 600, OTHER_PID: -1}), "contradictory"),
            (DeviceSample(memory=sample().memory), "processes_unknown"),
        ],
        ids=["above used", "negative", "unknown"],
    )
    def test_used_is_unsplit_when_its_processes_cannot_be_trusted(
        self, gpu: DeviceSample, reason: str
    ) -> None:
        result = ledger(gpu, worker())
        assert result.owners_bytes == {"driver_reserved": 100, "free": 180, "used_unsplit": 720}
        assert result.effective_used_bytes is None
        assert result.reasons == (reason,)

    def test_the_rest_is_unsplit_when_the_driver_does_not_say_what_a_process_holds(self) -> None:
        result = ledger(sample({WORKER_PID: 600, OTHER_PID: None}), worker())
        assert result.owners_bytes == {
            "driver_reserved": 100,
            "free": 180,
            **INSIDE,
            "used_unsplit": 120,
        }
        assert result.effective_used_bytes == 510
        assert result.reasons == ("process_bytes_unknown",)

    def test_a_worker_of_unknown_size_has_no_effective_figure(self) -> None:
        result = ledger(sample({WORKER_PID: None, OTHER_PID: 90}), worker())
        assert result.owners_bytes["used_unsplit"] == 630
        assert result.effective_used_bytes is None

    def test_the_rest_is_unsplit_when_memory_moved_while_processes_were_read(self) -> None:
        result = ledger(sample(is_coherent=False), worker())
        assert result.owners_bytes["used_unsplit"] == 30
        assert "unattributed" not in result.owners_bytes
        assert result.reasons == ("memory_moved",)

    @pytest.mark.parametrize(
        "memory",
        [
            DeviceMemory(total_bytes=1000, used_bytes=720, free_bytes=180, reserved_bytes=101),
            DeviceMemory(total_bytes=1000, used_bytes=1020, free_bytes=-120, reserved_bytes=100),
        ],
        ids=["sum", "negative"],
    )
    def test_memory_that_contradicts_itself_has_no_owners(self, memory: DeviceMemory) -> None:
        result = ledger(sample(memory=memory), worker())
        assert result.owners_bytes == {}
        assert result.reasons == ("memory_contradictory",)

    def test_unknown_memory_has_no_owners_and_is_no_contradiction(self) -> None:
        result = ledger(sample(memory=None), worker())
        assert result.owners_bytes == {}
        assert result.reasons == ()

    def test_a_gpu_that_could_not_be_read_has_no_ledger(self) -> None:
        assert ledgers({UUID: None}, [worker()]).by_uuid == {}


def test_without_an_engine_nothing_is_said_of_effective_use() -> None:
    result = ledger(sample())
    assert result.owners_bytes == {**OUTSIDE, "other_processes": 690}
    assert result.effective_used_bytes is None


def test_a_worker_that_the_driver_no_longer_lists_is_dropped() -> None:
    result = split(sample({OTHER_PID: 690}), worker())
    assert result.by_uuid[UUID].owners_bytes == {**OUTSIDE, "other_processes": 690}
    assert result.reasons == {}
    assert result.worker_pids == {}


class TestOtherGpus:
    FAR = "GPU-00000000-0000-0000-0000-00000000000b"

    def test_one_engine_fans_out_to_the_gpus_of_its_ranks_with_each_ranks_block_bytes(self) -> None:
        samples = {UUID: sample(), self.FAR: sample({31: 600})}
        half = worker(31, uuid=self.FAR, rank=1, kv_pool_bytes=101)
        result = ledgers(samples, [worker(), half])
        assert result.by_uuid[UUID].owners_bytes["kv_active"] == 50
        assert result.by_uuid[self.FAR].owners_bytes["kv_active"] == 25
        assert result.worker_pids == {("node-1", "0", 0): WORKER_PID, ("node-1", "0", 1): 31}
        assert result.engine_pids == {WORKER_PID, 31}
        assert result.serving_uuids == {UUID, self.FAR}

    def test_a_workers_context_on_another_gpu_is_the_engines_and_unsplit(self) -> None:
        samples = {UUID: sample(), self.FAR: sample({WORKER_PID: 54, OTHER_PID: 90})}
        owners = ledgers(samples, [worker()]).by_uuid[self.FAR].owners_bytes
        assert owners["engine_unsplit"] == 54
        assert owners["other_processes"] == 90

    def test_a_scheduler_that_holds_memory_belongs_to_its_engine(self) -> None:
        result = ledgers({UUID: sample()}, [worker()], frozenset({OTHER_PID}))
        assert result.by_uuid[UUID].owners_bytes["engine_unsplit"] == 90
        assert result.engine_pids == {WORKER_PID, OTHER_PID}

    @pytest.mark.parametrize("uuid", [None, "GPU-unheard-of"])
    def test_a_worker_on_an_unknown_gpu_is_unsplit_where_it_is_listed(
        self, uuid: str | None
    ) -> None:
        result = split(sample(), worker(uuid=uuid))
        assert result.by_uuid[UUID].owners_bytes == UNSPLIT
        assert result.reasons == {"unknown_gpu": 1}

    def test_a_dead_worker_on_an_unknown_gpu_is_not_counted_for_ever(self) -> None:
        gone = worker(uuid="GPU-unheard-of", torch_age_intervals=2.1)
        assert split(sample(), gone).reasons == {}
