"""A co-tenant is told once, soon, with its pid; an engine's own processes never are."""

from typing import Any

import pytest

from exporter.analysis.conflict_signs import ConflictRules
from exporter.analysis.conflicts import described
from exporter.records.conflict import ProcessRow
from tests.conflicts import FAR, MIB, SERVING, Held, Watch, gpu
from tests.readings import UUID
from tests.workers import WORKER_PID, worker

ENGINE: Held = {WORKER_PID: 6000}
STRANGER = 77


def with_stranger(mib: int | None) -> Held:
    return {**ENGINE, STRANGER: mib}


@pytest.fixture
def watch() -> Watch:
    """An engine serves, alone on its GPU, at second 0."""
    watch = Watch()
    watch.see(0.0, gpu(ENGINE))
    return watch


class TestOnset:
    def test_a_process_that_appears_is_told_once_with_the_process_table(self, watch: Watch) -> None:
        assert watch.see(0.1, gpu(with_stranger(700), {STRANGER: "python3"})) == ()
        (conflict,) = watch.see(0.2, gpu(with_stranger(710), {STRANGER: "python3"}))
        for tick in range(3, 9):
            assert watch.see(tick / 10, gpu(with_stranger(710), {STRANGER: "python3"})) == ()
        assert (conflict.id, conflict.kind, conflict.uuid, conflict.pid) == (
            1,
            "co_tenant",
            UUID,
            STRANGER,
        )
        assert conflict.ts_unix_ns == 100_000_000
        assert conflict.used_bytes == 710 * MIB
        assert conflict.growth_bytes == {UUID: 710 * MIB}
        assert conflict.margin_bytes is None
        assert conflict.ended_unix_ns is None
        assert conflict.processes == (
            ProcessRow(uuid=UUID, pid=WORKER_PID, used_bytes=6000 * MIB),
            ProcessRow(uuid=UUID, pid=STRANGER, name="python3", used_bytes=710 * MIB),
        )
        assert watch.state.counts == {UUID: {"co_tenant": 1, "pressure": 0, "margin": 0}}
        assert watch.state.events == {1: conflict}

    @pytest.mark.parametrize(
        "took_at_s", [0.201, 0.25, 0.3], ids=["just after a reading", "between", "at a reading"]
    )
    def test_it_is_told_within_two_and_a_half_intervals_of_taking_the_memory(
        self, watch: Watch, took_at_s: float
    ) -> None:
        interval_s = 0.1
        for tick in range(1, 10):
            now_s = tick * interval_s
            has_taken = now_s >= took_at_s - 1e-9
            if watch.see(now_s, gpu(with_stranger(700) if has_taken else ENGINE)):
                break
        assert now_s == pytest.approx(0.4)  # 0.3 shows it first
        assert now_s - took_at_s <= 2.5 * interval_s

    @pytest.mark.parametrize(("mib", "conflicts"), [(255, 0), (256, 1)])
    def test_it_takes_256_mib(self, watch: Watch, mib: int, conflicts: int) -> None:
        for tick in range(1, 4):
            watch.see(tick, gpu(with_stranger(mib)))
        assert len(watch.told) == conflicts

    def test_growth_counts_from_the_least_that_the_process_held(self) -> None:
        watch = Watch()
        for tick, mib in enumerate([900, 500, 600, 755]):
            watch.see(tick, gpu(with_stranger(mib)))
        assert watch.told == []
        watch.see(4, gpu(with_stranger(756)))
        watch.see(5, gpu(with_stranger(760)))
        (conflict,) = watch.told
        assert conflict.growth_bytes == {UUID: 260 * MIB}
        assert conflict.ts_unix_ns == 4_000_000_000

    def test_a_process_that_comes_for_one_reading_is_told_as_it_was(self, watch: Watch) -> None:
        watch.see(1, gpu(with_stranger(700)))
        (conflict,) = watch.see(2, gpu(ENGINE))
        assert conflict.used_bytes == 700 * MIB
        assert (conflict.ts_unix_ns, conflict.ended_unix_ns) == (1_000_000_000, 2_000_000_000)
        assert watch.see(3, gpu(ENGINE)) == ()

    def test_a_process_that_shrinks_before_it_is_told_keeps_its_largest_growth(
        self, watch: Watch
    ) -> None:
        watch.see(1, gpu(with_stranger(700)))
        (conflict,) = watch.see(2, gpu(with_stranger(200)))
        assert conflict.used_bytes == 200 * MIB
        assert conflict.growth_bytes == {UUID: 700 * MIB}
        assert conflict.ended_unix_ns is None

    def test_growth_of_a_process_of_unknown_size_counts_from_its_first_known_one(self) -> None:
        watch = Watch()
        for tick, mib in enumerate([None, 700, 955]):
            watch.see(tick, gpu(with_stranger(mib)))
        assert watch.told == []
        watch.see(3, gpu(with_stranger(956)))
        watch.see(4, gpu(with_stranger(956)))
        assert [conflict.growth_bytes for conflict in watch.told] == [{UUID: 256 * MIB}]

    def test_growth_counts_on_over_a_reading_that_does_not_tell_the_size(self) -> None:
        watch = Watch()
        for tick, mib in enumerate([700, None, 956, 956]):
            watch.see(tick, gpu(with_stranger(mib)))
        assert [conflict.growth_bytes for conflict in watch.told] == [{UUID: 256 * MIB}]


class TestWhatIsNone:
    def test_what_runs_when_we_start(self) -> None:
        watch = Watch()
        for tick in range(4):
            watch.see(tick, gpu(with_stranger(700)))
        assert watch.told == []

    @pytest.mark.parametrize(
        "before",
        [(), (worker(kv=None),), (worker(kv_age_intervals=2.1),)],
        ids=["no trace", "no kv", "old kv"],
    )
    def test_what_came_before_the_engine_began_to_serve(self, before: Any) -> None:
        watch = Watch()
        watch.see(0, gpu(ENGINE), workers=before)
        watch.see(1, gpu(with_stranger(700)), workers=before)
        watch.see(2, gpu(with_stranger(800)), workers=before)
        assert watch.state.counts == {}
        watch.see(3, gpu(with_stranger(800)))
        watch.see(4, gpu(with_stranger(800)))
        assert watch.told == []
        assert watch.state.counts == {UUID: {"co_tenant": 0, "pressure": 0, "margin": 0}}

    @pytest.mark.parametrize(
        "names", [["dcgm", "dcgm"], [None, "dcgm"]], ids=["known", "known late"]
    )
    def test_a_process_of_an_expected_name(self, names: list[str | None]) -> None:
        watch = Watch(ConflictRules(expected_processes=frozenset({"dcgm"})))
        watch.see(0, gpu(ENGINE))
        for tick, name in enumerate([*names, "dcgm"], start=1):
            watch.see(tick, gpu(with_stranger(700), {STRANGER: name} if name else None))
        assert watch.told == []

    def test_the_engines_own_growth(self, watch: Watch) -> None:
        for tick in range(1, 4):
            watch.see(tick, gpu({WORKER_PID: 7000}))
        assert watch.told == []

    def test_a_worker_whose_trace_fell_silent(self, watch: Watch) -> None:
        silent = (worker(torch_age_intervals=50.0, kv_age_intervals=50.0),)
        for tick in range(1, 4):
            watch.see(tick, gpu({WORKER_PID: 7000}), workers=silent)
        assert watch.told == []

    def test_a_process_that_turns_out_to_be_a_worker(self, watch: Watch) -> None:
        watch.see(1, gpu(with_stranger(700)))
        watch.see(2, gpu(with_stranger(900)), workers=(worker(), worker(STRANGER, engine="1")))
        watch.see(3, gpu(with_stranger(999)), workers=(worker(), worker(STRANGER, engine="1")))
        assert watch.told == []

    def test_a_process_that_could_be_the_worker(self) -> None:
        watch = Watch()
        of_unknown_pid = (worker(None),)
        for tick in range(4):
            held = ENGINE if tick == 0 else with_stranger(700)
            watch.see(tick, gpu(held), workers=of_unknown_pid)
        assert watch.told == []

    def test_what_happens_on_a_gpu_without_an_engine(self, watch: Watch) -> None:
        watch.see(1, gpu(ENGINE), far=gpu({}))
        for tick in range(2, 5):
            watch.see(tick, gpu(ENGINE), far=gpu({STRANGER: 9000}))
        assert watch.told == []
        assert FAR not in watch.state.counts

    def test_what_comes_after_the_engine_has_gone(self, watch: Watch) -> None:
        for tick in range(1, 4):
            watch.see(tick, gpu({STRANGER: 9000}))
        assert watch.told == []

    def test_what_came_while_the_engine_was_restarted(self, watch: Watch) -> None:
        watch.see(1, gpu({STRANGER: 9000}))
        for tick in range(2, 5):
            watch.see(tick, gpu({STRANGER: 9000, 21: 6000}), workers=(worker(21),))
        assert watch.told == []


class TestEnd:
    def test_it_ends_when_the_process_goes_and_another_onset_is_another_conflict(
        self, watch: Watch
    ) -> None:
        for tick, held in enumerate([with_stranger(700)] * 2 + [ENGINE] + [with_stranger(500)] * 2):
            watch.see(tick + 1, gpu(held))
        assert [conflict.id for conflict in watch.told] == [1, 2]
        assert watch.ended_unix_ns(1) == 3_000_000_000
        assert watch.ended_unix_ns(2) is None
        assert watch.state.counts[UUID]["co_tenant"] == 2

    def test_it_ends_when_the_process_has_shrunk_to_below_half_the_threshold(
        self, watch: Watch
    ) -> None:
        for tick, mib in enumerate([700, 700, 128, 300, 128]):
            watch.see(tick + 1, gpu(with_stranger(mib)))
        assert len(watch.told) == 1
        assert watch.ended_unix_ns(1) is None
        watch.see(6, gpu(with_stranger(127)))
        assert watch.ended_unix_ns(1) == 6_000_000_000

    def test_nothing_ends_because_the_gpu_could_not_be_read(self, watch: Watch) -> None:
        watch.see(1, gpu(with_stranger(700)))
        watch.see(2, gpu(with_stranger(700)))
        watch.see(3, None)
        watch.see(4, gpu(None))
        watch.see(5, gpu(with_stranger(700)))
        assert len(watch.told) == 1
        assert watch.ended_unix_ns(1) is None

    def test_the_largest_growth_is_kept(self, watch: Watch) -> None:
        for tick, mib in enumerate([300, 300, 5000, 400]):
            watch.see(tick + 1, gpu(with_stranger(mib)))
        assert watch.state.events[1].growth_bytes == {UUID: 5000 * MIB}
        assert watch.told[0].growth_bytes == {UUID: 300 * MIB}


class TestSeveralGpus:
    BOTH = (worker(), worker(21, rank=1, uuid=FAR))

    def test_one_process_is_one_conflict_where_it_grew_most(self) -> None:
        watch = Watch()
        watch.see(0, gpu(ENGINE), gpu({21: 6000}), self.BOTH)
        for tick in range(1, 4):
            watch.see(tick, gpu(with_stranger(520)), gpu({21: 6000, STRANGER: 6700}), self.BOTH)
        (conflict,) = watch.told
        assert (conflict.uuid, conflict.used_bytes) == (FAR, 6700 * MIB)
        assert conflict.growth_bytes == {UUID: 520 * MIB, FAR: 6700 * MIB}
        assert [(row.uuid, row.pid) for row in conflict.processes] == [
            (UUID, STRANGER),
            (FAR, 21),
            (FAR, STRANGER),
        ]
        assert watch.state.counts[FAR]["co_tenant"] == 1
        assert watch.state.counts[UUID]["co_tenant"] == 0

    def test_its_context_may_show_on_the_other_gpu_one_reading_later(self) -> None:
        watch = Watch()
        watch.see(0, gpu(ENGINE), gpu({21: 6000}), self.BOTH)
        watch.see(1, gpu(with_stranger(14)), gpu({21: 6000, STRANGER: 6700}), self.BOTH)
        watch.see(2, gpu(with_stranger(520)), gpu({21: 6000, STRANGER: 6700}), self.BOTH)
        (conflict,) = watch.told
        assert conflict.growth_bytes == {UUID: 520 * MIB, FAR: 6700 * MIB}

    def test_its_main_gpu_counts_although_no_engine_is_known_there(self, watch: Watch) -> None:
        watch.see(1, gpu(ENGINE), gpu({}))
        watch.see(2, gpu(ENGINE), gpu({STRANGER: 6700}))
        watch.see(3, gpu(with_stranger(520)), gpu({STRANGER: 6700}))
        watch.see(4, gpu(with_stranger(520)), gpu({STRANGER: 6700}))
        (conflict,) = watch.told
        assert (conflict.uuid, conflict.ts_unix_ns) == (FAR, 3_000_000_000)
        assert watch.state.counts[FAR]["co_tenant"] == 1

    def test_what_it_held_elsewhere_when_we_started_is_no_growth(self) -> None:
        watch = Watch()
        watch.see(0, gpu(ENGINE), gpu({STRANGER: 6700}))
        watch.see(1, gpu(with_stranger(520)), gpu({STRANGER: 6700}))
        watch.see(2, gpu(with_stranger(520)), gpu({STRANGER: 6700}))
        (conflict,) = watch.told
        assert (conflict.uuid, conflict.growth_bytes) == (UUID, {UUID: 520 * MIB})

    def test_a_gpu_that_is_no_longer_listed_takes_its_processes_with_it(self, watch: Watch) -> None:
        far = gpu({21: 6000})
        watch.see(1, gpu(ENGINE), far, self.BOTH)
        watch.see(2, gpu(ENGINE), gpu({21: 6000, STRANGER: 700}), self.BOTH)
        (conflict,) = watch.see(3, gpu(ENGINE), workers=self.BOTH)
        assert (conflict.uuid, conflict.ended_unix_ns) == (FAR, 3_000_000_000)
        assert watch.state.standing == {}


class TestPressure:
    # 6360 used and 334 free: 0.9501 of 6694 usable; with 335 free 0.94996
    def test_a_full_gpu_on_which_others_grew_is_told_at_once(self, watch: Watch) -> None:
        (conflict,) = watch.see(1, gpu({**ENGINE, 78: 200, STRANGER: 160}, free_mib=334))
        assert (conflict.kind, conflict.uuid, conflict.pid) == ("pressure", UUID, 78)
        assert conflict.used_bytes == 200 * MIB
        assert conflict.growth_bytes == {UUID: 360 * MIB}
        assert watch.see(2, gpu({**ENGINE, 78: 200, STRANGER: 160}, free_mib=334)) == ()
        assert watch.state.counts[UUID] == {"co_tenant": 0, "pressure": 1, "margin": 0}

    @pytest.mark.parametrize(
        ("held", "free_mib"),
        [
            ({WORKER_PID: 6900}, 100),
            ({**ENGINE, 78: 200, STRANGER: 55}, 100),
            ({**ENGINE, 78: 200, STRANGER: 160}, 335),
        ],
        ids=["the engine grew", "others grew by 255 MiB", "just below 95 %"],
    )
    def test_it_needs_both(self, watch: Watch, held: Held, free_mib: int) -> None:
        watch.see(1, gpu(held, free_mib=free_mib))
        assert watch.told == []

    def test_a_full_gpu_without_an_engine_is_none(self, watch: Watch) -> None:
        watch.see(1, gpu(ENGINE), gpu({}))
        watch.see(2, gpu(ENGINE), gpu({STRANGER: 6700}, free_mib=10))
        assert watch.told == []

    def test_expected_processes_count(self) -> None:
        watch = Watch(ConflictRules(expected_processes=frozenset({"dcgm"})))
        watch.see(0, gpu(ENGINE))
        for tick in range(1, 4):
            watch.see(tick, gpu(with_stranger(400), {STRANGER: "dcgm"}, free_mib=100))
        assert [conflict.kind for conflict in watch.told] == ["pressure"]

    def test_it_goes_on_down_to_93_percent(self, watch: Watch) -> None:
        # 6400 / 6881 = 0.9301 and 6400 / 6882 = 0.92996
        for tick, free_mib in enumerate([100, 481, 100]):
            watch.see(tick + 1, gpu({**ENGINE, 78: 200, STRANGER: 200}, free_mib=free_mib))
        assert watch.ended_unix_ns(1) is None
        watch.see(4, gpu({**ENGINE, 78: 200, STRANGER: 200}, free_mib=482))
        assert watch.ended_unix_ns(1) == 4_000_000_000
        assert len(watch.told) == 1


class TestMargin:
    # margin = (500 − 420 − inactive 30) + free − (peak − 420), in MiB beside torch's small figures
    @staticmethod
    def short_of(mib: int, **changes: Any) -> tuple[Any, ...]:
        short = {
            "inactive_split_bytes": 30,
            "device_free_bytes": 0,
            "allocated_peak_bytes": 470 + mib * MIB,
        }
        return (worker(**{**short, **changes}),)

    def test_a_worker_whose_next_peak_would_not_fit_is_told_at_once(self, watch: Watch) -> None:
        (conflict,) = watch.see(1, gpu(ENGINE), workers=self.short_of(3))
        assert (conflict.kind, conflict.uuid, conflict.pid) == ("margin", UUID, WORKER_PID)
        assert conflict.margin_bytes == -3 * MIB
        assert conflict.used_bytes == 6000 * MIB
        assert conflict.growth_bytes == {}
        assert watch.see(2, gpu(ENGINE), workers=self.short_of(9)) == ()
        assert watch.state.counts[UUID]["margin"] == 1

    def test_a_margin_of_0_is_none(self, watch: Watch) -> None:
        assert watch.see(1, gpu(ENGINE), workers=self.short_of(0)) == ()

    @pytest.mark.parametrize(
        "changes",
        [
            {"is_asleep": True},
            {"has_pluggable_allocator": True},
            {"device_free_bytes": None},
            {"torch_age_intervals": 2.1},
            {"uuid": "GPU-unheard-of"},
        ],
    )
    def test_none_is_told_without_the_data_for_it(
        self, watch: Watch, changes: dict[str, Any]
    ) -> None:
        assert watch.see(1, gpu(ENGINE), workers=self.short_of(3, **changes)) == ()

    def test_it_ends_when_the_margin_is_128_mib_again(self, watch: Watch) -> None:
        watch.see(1, gpu(ENGINE), workers=self.short_of(3))
        watch.see(2, gpu(ENGINE), workers=self.short_of(-127))
        assert watch.ended_unix_ns(1) is None
        watch.see(3, gpu(ENGINE), workers=self.short_of(3, kv_age_intervals=9.0))
        watch.see(4, gpu(ENGINE), workers=self.short_of(3))
        assert len(watch.told) == 1
        watch.see(5, gpu(ENGINE), workers=self.short_of(-128))
        assert watch.ended_unix_ns(1) == 5_000_000_000

    def test_it_ends_with_the_worker_although_its_record_is_remembered(self, watch: Watch) -> None:
        watch.see(1, gpu(ENGINE), workers=self.short_of(3))
        watch.see(2, gpu({}), workers=self.short_of(3, torch_age_intervals=2.1))
        assert watch.ended_unix_ns(1) == 2_000_000_000


def test_the_newest_hundred_are_kept_and_all_are_counted(watch: Watch) -> None:
    for tick in range(1, 2 * 102 + 1, 2):
        watch.see(tick, gpu({**ENGINE, 1000 + tick: 700}))
        watch.see(tick + 1, gpu(ENGINE))
    assert list(watch.state.events) == list(range(3, 103))
    assert watch.state.counts[UUID]["co_tenant"] == 102


def test_a_conflict_can_be_described_further(watch: Watch) -> None:
    watch.see(1, gpu(with_stranger(700)))
    watch.see(2, gpu(with_stranger(700)))
    rows = (ProcessRow(uuid=UUID, pid=STRANGER, start_unix_s=5.0, command="train --lr 1"),)
    watch.state = described(watch.state, 1, rows)
    watch.see(3, gpu(with_stranger(900)))
    assert watch.state.events[1].processes == rows
    assert watch.state.events[1].growth_bytes == {UUID: 900 * MIB}
    assert described(watch.state, 99, rows) == watch.state


def test_a_reading_leaves_the_state_before_it_unchanged(watch: Watch) -> None:
    watch.see(1, gpu(with_stranger(700)))
    before = watch.state
    watch.see(2, gpu(with_stranger(700)))
    assert (before.events, before.counts[UUID]["co_tenant"], before.last_id) == ({}, 0, 0)
    assert watch.see(2, gpu(with_stranger(700)), workers=SERVING) == ()
