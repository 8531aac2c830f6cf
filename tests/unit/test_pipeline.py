"""Readings in, one View out, on a clock that only moves when told to."""

import threading

import pytest

from exporter.clock import ManualClock
from exporter.pipeline import Pipeline
from exporter.records.device import DeviceReading
from exporter.records.source import Reading
from exporter.records.trace import (
    FreeRuns,
    PageTable,
    PrefixCache,
    ScheduledTokens,
    Slots,
    TraceReading,
)
from exporter.records.view import EngineCounters, EngineView, RankView, View, Window
from tests.readings import (
    START_UNIX_NS,
    UUID,
    blocks,
    device,
    device_reading,
    facts,
    kv,
    torch,
    trace_reading,
)

OTHER_UUID = "GPU-00000000-0000-0000-0000-00000000000b"


class SetClock(ManualClock):
    """A clock that someone sets, while monotonic time goes on."""

    def set_by(self, seconds: int) -> None:
        self._unix_ns += seconds * 10**9


class Stage:
    """A pipeline on a manual clock: feed readings at a time, get the View of that time."""

    def __init__(self) -> None:
        self.clock = SetClock(START_UNIX_NS, monotonic_s=5000.0)
        self.pipeline = Pipeline(self.clock, 0.5)
        self._now_s = 0.0

    def at(self, now_s: float, *readings: Reading) -> View:
        self.clock.advance(now_s - self._now_s)
        self._now_s = now_s
        for reading in readings:
            self.pipeline.offer(reading)
        return self.pipeline.tick()

    def engine_at(self, now_s: float, *readings: Reading) -> EngineView:
        (engine,) = self.at(now_s, *readings).engines
        return engine

    def rank_at(self, now_s: float, *readings: Reading) -> RankView:
        (rank,) = self.at(now_s, *readings).ranks
        return rank


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_before_the_first_reading_the_view_is_empty(stage: Stage) -> None:
    assert stage.pipeline.view is None
    view = stage.at(0.0)
    assert (view.devices, view.engines, view.ranks) == ((), (), ())


def test_the_time_at_which_the_settings_were_loaded_is_told() -> None:
    clock = ManualClock(START_UNIX_NS)
    view = Pipeline(clock, 0.5, configured_unix_s=1_800_000_000.5).tick()
    assert (view.config_reload_success, view.config_reload_unix_s) == (True, 1_800_000_000.5)


class TestDevices:
    def test_pressure_and_windows_come_from_the_samples(self, stage: Stage) -> None:
        stage.at(0.0, device_reading(device(180)))
        (gpu,) = stage.at(0.5, device_reading(device(720), at_s=0.5)).devices
        assert gpu.is_up
        assert gpu.pressure_ratio == 0.8
        assert gpu.used_window_bytes == Window(min=180, max=720, mean=450)
        assert gpu.pressure_window == Window(min=0.2, max=0.8, mean=0.5)
        assert gpu.pressure_samples is not None
        assert sum(gpu.pressure_samples.counts) == 2

    def test_a_spike_between_two_scrapes_stays_in_the_window(self, stage: Stage) -> None:
        for step, used_bytes in enumerate((90, 855, 90)):
            at_s = step * 0.5
            view = stage.at(at_s, device_reading(device(used_bytes), at_s=at_s))
        window = view.devices[0].pressure_window
        assert window is not None
        assert (window.min, window.max) == (0.1, 0.95)

    def test_a_sample_is_counted_once_however_often_the_pipeline_ticks(self, stage: Stage) -> None:
        stage.at(0.0, device_reading(device(180)))
        (gpu,) = stage.at(0.7).devices
        assert gpu.pressure_samples is not None
        assert sum(gpu.pressure_samples.counts) == 1

    def test_after_three_intervals_without_a_reading_the_gpu_is_down_and_absent(
        self, stage: Stage
    ) -> None:
        stage.at(0.0, device_reading(device(180)))
        assert stage.at(1.5).devices[0].is_up
        (gpu,) = stage.at(1.6).devices
        assert not gpu.is_up
        assert (gpu.sample, gpu.pressure_ratio, gpu.used_window_bytes) == (None, None, None)

    def test_a_tick_recorded_without_a_reading_leaves_the_gpus_as_they_are(
        self, stage: Stage
    ) -> None:
        stage.at(0.0, device_reading(device(180)))
        (gpu,) = stage.at(0.7, device_reading(at_s=0.7)).devices
        assert gpu.is_up
        assert gpu.pressure_ratio == 0.2

    def test_a_lost_gpu_is_down_and_the_others_go_on(self, stage: Stage) -> None:
        view = stage.at(0.0, device_reading(device(None), device(180, index=1, uuid=OTHER_UUID)))
        assert [(gpu.facts.index, gpu.is_up) for gpu in view.devices] == [(0, False), (1, True)]
        assert view.devices[1].pressure_ratio == 0.2

    def test_a_gpu_without_memory_figures_is_up_without_pressure(self, stage: Stage) -> None:
        gpu = device(180)
        assert gpu.sample is not None
        reading = device_reading(
            type(gpu)(facts=gpu.facts, sample=type(gpu.sample)(power_watts=300.0))
        )
        (view,) = stage.at(0.0, reading).devices
        assert view.is_up
        assert (view.pressure_ratio, view.pressure_window, view.pressure_samples) == (
            None,
            None,
            None,
        )


class TestEngines:
    def test_figures_come_from_the_newest_record(self, stage: Stage) -> None:
        record = kv(
            model_name="llama",
            block_size=16,
            blocks=blocks(25, cached=30),
            page_table=PageTable(num_pages=42, contiguous_pages=17, tables=4),
            slots=Slots(allocated=640, used=608),
            free_runs=FreeRuns(queue_walked=512, queue_contiguous=128),
        )
        engine = stage.engine_at(0.0, trace_reading(record))
        assert (engine.replica, engine.model_name, engine.engine) == ("node-1", "llama", "0")
        assert engine.is_up
        assert engine.kv == record
        assert engine.usage_ratio == 0.25
        assert engine.contiguity_ratio == 17 / 42
        assert engine.extents == 29
        assert engine.kv_fragmentation_ratio == 0.05
        assert engine.free_queue_contiguity_ratio == 0.25
        assert engine.headroom_tokens == 75 * 16

    def test_the_usage_window_takes_its_maximum_from_the_peaks(self, stage: Stage) -> None:
        stage.at(0.0, trace_reading(kv(blocks=blocks(10, active_peak=10))))
        engine = stage.engine_at(1.0, trace_reading(kv(1.0, blocks=blocks(30, active_peak=98))))
        assert engine.usage_window == Window(min=0.1, max=0.98, mean=0.2)

    def test_block_size_of_the_facts_serves_where_the_record_lacks_it(self, stage: Stage) -> None:
        reading = trace_reading(facts(block_size=32), kv(blocks=blocks(90)))
        assert stage.engine_at(0.0, reading).headroom_tokens == 320

    def test_an_engine_is_gone_after_three_intervals_but_for_being_down(self, stage: Stage) -> None:
        stage.at(0.0, trace_reading(kv(blocks=blocks(25), preemptions=3)))
        assert stage.engine_at(3.0).is_up
        engine = stage.engine_at(3.1)
        assert not engine.is_up
        assert (engine.kv, engine.usage_ratio, engine.usage_window) == (None, None, None)
        assert engine.counters == EngineCounters(restarts=0)

    def test_facts_that_outlive_the_scheduler_do_not_keep_the_engine_up(self, stage: Stage) -> None:
        stage.at(0.0, trace_reading(facts(role="engine"), kv()))
        engine = stage.engine_at(3.1)
        assert not engine.is_up
        assert engine.facts is not None

    def test_an_engine_that_tells_only_facts_is_up_while_these_are_fresh(
        self, stage: Stage
    ) -> None:
        unsupported = facts(role="engine", status="unsupported", reason="no get_blocks")
        assert stage.engine_at(0.0, trace_reading(unsupported)).is_up
        assert stage.engine_at(90.0).is_up
        assert not stage.engine_at(90.1).is_up

    def test_a_silent_engine_is_forgotten_after_ten_minutes(self, stage: Stage) -> None:
        stage.at(0.0, trace_reading(kv()))
        assert len(stage.at(600.0).engines) == 1
        assert stage.at(601.0).engines == ()

    def test_an_old_record_found_at_start_is_no_engine(self, stage: Stage) -> None:
        assert stage.at(0.0, trace_reading(kv(-3600.0))).engines == ()

    @pytest.mark.parametrize("step_s", [-3600, 3600], ids=["an hour back", "an hour ahead"])
    def test_d8_a_clock_that_is_set_moves_no_window_and_no_schedule(
        self, stage: Stage, step_s: int
    ) -> None:
        """Machine and engine share the clock."""
        stage.engine_at(10.0, trace_reading(kv(10.0, blocks=blocks(active=20))))
        stage.clock.set_by(step_s)
        engine = stage.engine_at(11.0, trace_reading(kv(11.0 + step_s, blocks=blocks(active=60))))
        assert (engine.is_up, engine.usage_ratio) == (True, 0.6)
        assert engine.usage_window == Window(min=0.2, max=0.6, mean=0.4)
        engine = stage.engine_at(72.0, trace_reading(kv(72.0 + step_s, blocks=blocks(active=50))))
        assert engine.usage_window == Window(min=0.5, max=0.5, mean=0.5)

    def test_d8_a_time_in_the_future_counts_as_now(self, stage: Stage) -> None:
        assert stage.engine_at(0.0, trace_reading(kv(3600.0))).is_up
        assert not stage.engine_at(3.1).is_up

    def test_history_in_the_tail_of_a_file_fills_the_windows(self, stage: Stage) -> None:
        records = [kv(float(at_s), blocks=blocks(10 + at_s + 9)) for at_s in range(-9, 1)]
        engine = stage.engine_at(0.0, trace_reading(*records))
        assert engine.usage_window is not None
        assert (engine.usage_window.min, engine.usage_window.max) == (0.1, 0.19)
        assert stage.engine_at(0.1).is_up

    def test_c6_hit_ratio_is_hits_by_queries_in_the_window(self, stage: Stage) -> None:
        def cache(queries: int, hits: int) -> PrefixCache:
            return PrefixCache(query_tokens=queries, hit_tokens=hits)

        first = stage.engine_at(0.0, trace_reading(kv(prefix_cache=cache(1000, 900))))
        assert first.hit_ratio is None
        second = stage.engine_at(1.0, trace_reading(kv(1.0, prefix_cache=cache(1400, 1000))))
        assert second.hit_ratio == 0.25
        assert second.counters.query_tokens == 1400
        assert second.counters.hit_tokens == 1000

    def test_c6_without_queries_there_is_no_hit_ratio(self, stage: Stage) -> None:
        cache = PrefixCache(query_tokens=1000, hit_tokens=900)
        stage.at(0.0, trace_reading(kv(prefix_cache=cache)))
        assert stage.engine_at(1.0, trace_reading(kv(1.0, prefix_cache=cache))).hit_ratio is None

    def test_c7_an_engine_restart_is_counted_and_its_counters_go_on(self, stage: Stage) -> None:
        stage.at(0.0, trace_reading(kv(preemptions=900, tokens=ScheduledTokens(50, 40))))
        engine = stage.engine_at(
            20.0, trace_reading(kv(20.0, pid=11, preemptions=12, tokens=ScheduledTokens(5, 4)))
        )
        assert engine.counters.restarts == 1
        assert engine.counters.preemptions == 912
        assert (engine.counters.prompt_tokens, engine.counters.generation_tokens) == (55, 44)

    def test_c7_a_count_that_goes_back_is_a_restart_too(self, stage: Stage) -> None:
        stage.at(0.0, trace_reading(kv(preemptions=900)))
        engine = stage.engine_at(1.0, trace_reading(kv(1.0, preemptions=12)))
        assert (engine.counters.restarts, engine.counters.preemptions) == (1, 912)

    def test_two_live_processes_of_one_name_are_both_shown(self, stage: Stage) -> None:
        view = stage.at(
            0.5,
            trace_reading(kv(pid=10, blocks=blocks(10)), kv(0.5, pid=11, blocks=blocks(60))),
        )
        assert [(engine.replica, engine.usage_ratio) for engine in view.engines] == [
            ("node-1", 0.1),
            ("node-1#11", 0.6),
        ]
        assert view.duplicate_identities == 1

    def test_a_dead_process_found_in_another_file_is_superseded(self, stage: Stage) -> None:
        alive = [kv(float(at_s), pid=11, preemptions=5) for at_s in range(-2, 1)]
        dead = [kv(float(at_s), pid=10, preemptions=70) for at_s in range(-40, -30)]
        view = stage.at(0.0, trace_reading(*alive, *dead))
        (engine,) = view.engines
        assert engine.kv is not None
        assert (engine.replica, engine.kv.pid) == ("node-1", 11)
        assert view.duplicate_identities == 0

    def test_the_worst_status_of_its_processes_is_the_engines(self, stage: Stage) -> None:
        engine = stage.engine_at(
            0.0,
            trace_reading(
                kv(),
                facts(pid=10, status="active", vllm_version="0.30.0", errors=1),
                facts(pid=20, role="worker", status="degraded", reason="no uuid", errors=2),
            ),
        )
        assert engine.facts is not None
        assert (engine.facts.pid, engine.facts.vllm_version) == (10, "0.30.0")
        assert (engine.facts.status, engine.facts.reason) == ("degraded", "worker: no uuid")
        assert engine.counters.plugin_errors == 3

    def test_scheduler_and_worker_in_one_process_count_each_for_itself(self, stage: Stage) -> None:
        def told(at_s: float, seconds: float, worker_seconds: float) -> TraceReading:
            return trace_reading(
                facts(
                    at_s, role="engine", status="active", max_num_seqs=64, plugin_seconds=seconds
                ),
                facts(at_s, role="worker", rank=0, status="active", plugin_seconds=worker_seconds),
            )

        stage.at(0.0, told(0.0, 2.0, 0.5))
        engine = stage.engine_at(30.0, trace_reading(kv(30.0)), told(30.0, 3.0, 0.75))
        assert engine.counters.plugin_seconds == 3.75
        assert engine.facts is not None
        assert (engine.facts.role, engine.facts.max_num_seqs) == ("engine", 64)

    def test_an_unsupported_worker_makes_the_engine_degraded(self, stage: Stage) -> None:
        engine = stage.engine_at(
            0.0,
            trace_reading(
                kv(),
                facts(role="engine", status="active"),
                facts(pid=20, role="worker", status="unsupported", reason="cuda_unavailable"),
            ),
        )
        assert engine.facts is not None
        assert (engine.facts.status, engine.facts.reason) == (
            "degraded",
            "worker: cuda_unavailable",
        )

    def test_a_bare_line_lasts_for_60_s(self, stage: Stage) -> None:
        bare = kv(
            pid=None,
            replica="page_table",
            engine="",
            interval_s=20.0,
            page_table=PageTable(num_pages=42, contiguous_pages=17),
        )
        assert stage.engine_at(0.0, trace_reading(bare)).contiguity_ratio == 17 / 42
        assert stage.engine_at(60.0).contiguity_ratio == 17 / 42
        assert stage.engine_at(60.5).contiguity_ratio is None

    def test_line_counts_are_those_of_the_newest_reading(self, stage: Stage) -> None:
        view = stage.at(0.0, trace_reading(kv()))
        assert (view.trace_lines, view.dropped_bytes) == ({"accepted": 1}, 7)


class TestRanks:
    def test_b15_a_rank_is_joined_to_its_gpu_by_uuid(self, stage: Stage) -> None:
        rank = stage.rank_at(
            0.0,
            device_reading(device(index=3)),
            trace_reading(torch(allocated_bytes=700, reserved_bytes=1000)),
        )
        assert (rank.device, rank.rank) == (3, 0)
        assert (rank.fragmentation_bytes, rank.fragmentation_ratio) == (300, 0.3)

    def test_a_uuid_without_prefix_is_the_same_gpu(self, stage: Stage) -> None:
        rank = stage.rank_at(
            0.0,
            device_reading(device(index=3)),
            trace_reading(torch(uuid=UUID.removeprefix("GPU-"))),
        )
        assert (rank.device, rank.torch.uuid) == (3, UUID)

    def test_an_unknown_gpu_leaves_the_device_unknown(self, stage: Stage) -> None:
        assert stage.rank_at(0.0, trace_reading(torch())).device is None

    def test_a_rank_is_gone_after_three_intervals(self, stage: Stage) -> None:
        stage.at(0.0, trace_reading(torch()))
        assert len(stage.at(3.0).ranks) == 1
        assert stage.at(3.1).ranks == ()

    def test_retries_go_on_over_a_worker_restart(self, stage: Stage) -> None:
        stage.at(0.0, trace_reading(torch(alloc_retries=4, ooms=1)))
        rank = stage.rank_at(20.0, trace_reading(torch(20.0, pid=21, alloc_retries=3, ooms=0)))
        assert (rank.replica, rank.alloc_retries, rank.ooms) == ("node-1", 7, 1)

    def test_what_a_worker_counted_outlives_it_until_it_is_forgotten(self, stage: Stage) -> None:
        stage.at(0.0, device_reading(device()), trace_reading(torch(alloc_retries=4, ooms=1)))
        assert stage.at(3.0).silent_ranks == ()
        (rank,) = stage.at(3.1).silent_ranks
        assert (rank.replica, rank.rank, rank.device, rank.uuid) == ("node-1", 0, 0, UUID)
        assert (rank.alloc_retries, rank.ooms) == (4, 1)
        assert len(stage.at(600.0).silent_ranks) == 1
        assert stage.at(600.1).silent_ranks == ()

    def test_a_worker_whose_old_records_are_found_at_start_is_not_shown(self, stage: Stage) -> None:
        assert stage.at(100.0, trace_reading(torch(ooms=1))).silent_ranks == ()

    def test_the_engine_lends_its_model_name(self, stage: Stage) -> None:
        rank = stage.rank_at(0.0, trace_reading(kv(model_name="llama"), torch()))
        assert rank.model_name == "llama"


class TestEffectivePressure:
    def test_c2_it_is_the_highest_kv_usage_on_the_gpu(self, stage: Stage) -> None:
        view = stage.at(
            0.0,
            trace_reading(
                kv(blocks=blocks(25)),
                torch(),
                kv(engine="1", pid=12, blocks=blocks(60, active_peak=70)),
                torch(engine="1", pid=22),
            ),
            device_reading(device()),
        )
        (gpu,) = view.devices
        assert gpu.effective_pressure_ratio == 0.6
        assert gpu.effective_pressure_window == Window(min=0.7, max=0.7, mean=0.7)

    def test_without_a_trace_it_is_absent(self, stage: Stage) -> None:
        (gpu,) = stage.at(0.0, device_reading(device())).devices
        assert gpu.effective_pressure_ratio is None
        assert gpu.effective_pressure_samples is None

    def test_a_gpu_of_no_engine_has_none(self, stage: Stage) -> None:
        view = stage.at(
            0.0,
            trace_reading(kv(blocks=blocks(25)), torch()),
            device_reading(device(), device(index=1, uuid=OTHER_UUID)),
        )
        assert [gpu.effective_pressure_ratio for gpu in view.devices] == [0.25, None]


def test_a_subscriber_gets_each_view_with_its_readings(stage: Stage) -> None:
    seen: list[tuple[View, tuple[Reading, ...]]] = []
    unsubscribe = stage.pipeline.subscribe(lambda view, readings: seen.append((view, readings)))
    reading = device_reading(device())
    view = stage.at(0.0, reading)
    unsubscribe()
    stage.at(0.5)
    assert seen == [(view, (reading,))]


def test_a_device_reading_makes_the_pipeline_tick_at_once() -> None:
    clock = ManualClock(START_UNIX_NS)
    pipeline = Pipeline(clock, interval_s=3600.0)
    stop, ticked = threading.Event(), threading.Event()

    def see(_view: View, readings: tuple[Reading, ...]) -> None:
        if any(isinstance(reading, DeviceReading) for reading in readings):
            ticked.set()

    pipeline.subscribe(see)
    thread = threading.Thread(target=pipeline.run, args=(stop,))
    thread.start()
    pipeline.offer(device_reading(device()))
    assert ticked.wait(10)
    stop.set()
    pipeline.wake()
    thread.join(10)
    assert not thread.is_alive()


def test_a_tick_that_fails_is_said_once_and_the_next_one_comes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pipeline = Pipeline(ManualClock(START_UNIX_NS), interval_s=0.01)
    stop, went_on = threading.Event(), threading.Event()
    calls: list[None] = []

    def fail_twice(_view: View, _readings: tuple[Reading, ...]) -> None:
        calls.append(None)
        if len(calls) <= 2:
            raise ValueError("odd reading")
        went_on.set()

    pipeline.subscribe(fail_twice)
    thread = threading.Thread(target=pipeline.run, args=(stop,))
    thread.start()
    assert went_on.wait(10)
    stop.set()
    thread.join(10)
    assert [record.getMessage() for record in caplog.records] == [
        "a tick failed; told again only after one that succeeds"
    ]
