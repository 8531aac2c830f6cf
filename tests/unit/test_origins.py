"""Plugin beats vLLM's /metrics beats its log, figure by figure, and no counter ever jumps."""

from typing import Any

import pytest

from exporter.history.origin import OriginChoice, OriginCounter
from exporter.records.trace import (
    EngineRecord,
    KvRecord,
    Origin,
    PageTable,
    PrefixCache,
    ScheduledTokens,
    TraceReading,
)
from exporter.records.view import EngineView, Window
from tests.readings import blocks, facts, kv, trace_reading
from tests.unit.test_pipeline import Stage


def metrics(at_s: float = 0.0, **fields: Any) -> KvRecord:
    """What /metrics told of the same engine."""
    return kv(at_s, pid=None, origin="metrics", **fields)


def metrics_facts(at_s: float = 0.0, **fields: Any) -> EngineRecord:
    return facts(at_s, pid=None, origin="metrics", interval_s=1.0, **fields)


def log(at_s: float = 0.0, **fields: Any) -> KvRecord:
    """What the log told of the same engine."""
    return kv(at_s, pid=None, origin="log", interval_s=20.0, model_name="", **fields)


@pytest.fixture
def stage() -> Stage:
    return Stage()


class TestFigures:
    def test_each_comes_from_the_best_origin_that_tells_it(self, stage: Stage) -> None:
        engine = stage.engine_at(
            0.0,
            trace_reading(log(usage_ratio=0.9, running=90, waiting=91)),
            trace_reading(metrics(usage_ratio=0.5, running=50, block_size=32)),
            trace_reading(kv(blocks=blocks(25), page_table=PageTable(42, 17))),
        )
        assert engine.kv == kv(
            blocks=blocks(25),
            page_table=PageTable(42, 17),
            usage_ratio=0.5,
            running=50,
            block_size=32,
            waiting=91,
        )
        assert engine.usage_ratio == 0.25
        assert engine.headroom_tokens == 75 * 32

    def test_they_are_one_engine_and_no_duplicates(self, stage: Stage) -> None:
        view = stage.at(0.0, trace_reading(kv(), facts(), metrics(), metrics_facts(), log()))
        assert [engine.replica for engine in view.engines] == ["node-1"]
        assert view.duplicate_identities == 0

    def test_without_the_plugin_metrics_are_enough(self, stage: Stage) -> None:
        engine = stage.engine_at(
            0.0,
            trace_reading(
                metrics(blocks=blocks(60), block_size=16, preemptions=3, model_name="llama"),
                metrics_facts(num_gpu_blocks=101, sleep_level=0),
            ),
        )
        assert engine.is_up
        assert (engine.model_name, engine.usage_ratio) == ("llama", 0.6)
        assert (engine.headroom_tokens, engine.counters.preemptions) == (40 * 16, 3)
        assert engine.facts is not None
        assert (engine.facts.num_gpu_blocks, engine.facts.status) == (101, None)

    def test_without_both_the_log_is_enough_for_usage_and_requests(self, stage: Stage) -> None:
        engine = stage.engine_at(0.0, trace_reading(log(usage_ratio=0.028, running=15, waiting=3)))
        assert engine.is_up
        assert (engine.usage_ratio, engine.hit_ratio, engine.headroom_tokens) == (0.028, None, None)
        assert engine.usage_window == Window(min=0.028, max=0.028, mean=0.028)

    def test_a_better_origin_that_falls_silent_makes_way(self, stage: Stage) -> None:
        stage.at(0.0, trace_reading(kv(blocks=blocks(25), running=1)))
        engine = stage.engine_at(3.0, trace_reading(metrics(3.0, usage_ratio=0.5, running=2)))
        assert (engine.usage_ratio, engine.kv and engine.kv.running) == (0.25, 1)
        engine = stage.engine_at(3.5, trace_reading(metrics(3.5, usage_ratio=0.6, running=3)))
        assert (engine.usage_ratio, engine.kv and engine.kv.running) == (0.6, 3)

    def test_all_silent_is_down(self, stage: Stage) -> None:
        stage.at(0.0, trace_reading(kv(), metrics(), log(usage_ratio=0.5)))
        assert stage.engine_at(60.0).is_up
        engine = stage.engine_at(60.5)
        assert (engine.is_up, engine.usage_ratio) == (False, None)

    def test_the_usage_window_is_of_one_origin_at_a_time(self, stage: Stage) -> None:
        for second in range(5):
            at_s = float(second)
            engine = stage.engine_at(
                at_s,
                trace_reading(kv(at_s, blocks=blocks(25 + second))),
                trace_reading(metrics(at_s, usage_ratio=0.99)),
            )
        assert engine.usage_window is not None
        assert (engine.usage_window.min, engine.usage_window.max) == (0.25, 0.29)

    def test_the_model_name_is_the_best_origins_and_does_not_flap(self, stage: Stage) -> None:
        names = []
        for second in range(4):
            at_s = float(second)
            stage.at(at_s, trace_reading(kv(at_s, model_name="llama")))
            view = stage.engine_at(at_s, trace_reading(metrics(at_s, model_name="/models/llama")))
            names.append(view.model_name)
        assert names == ["llama"] * 4

    def test_facts_of_the_plugin_are_completed_by_those_of_metrics(self, stage: Stage) -> None:
        engine = stage.engine_at(
            0.0,
            trace_reading(
                kv(),
                metrics_facts(block_size=99, cache_dtype="fp8", sleep_level=1),
                facts(status="active", block_size=16, max_num_seqs=64),
                facts(pid=20, role="worker", status="degraded", reason="no uuid"),
            ),
        )
        assert engine.facts is not None
        assert (engine.facts.pid, engine.facts.origin) == (10, "plugin")
        assert (engine.facts.block_size, engine.facts.max_num_seqs) == (16, 64)
        assert (engine.facts.cache_dtype, engine.facts.sleep_level) == ("fp8", 1)
        assert (engine.facts.status, engine.facts.reason) == ("degraded", "worker: no uuid")

    def test_another_engine_or_replica_is_never_joined(self, stage: Stage) -> None:
        view = stage.at(
            0.0,
            trace_reading(
                kv(blocks=blocks(10)),
                metrics(engine="1", usage_ratio=0.5),
                metrics(replica="node-2", usage_ratio=0.7),
                log(engine="", usage_ratio=0.9),
            ),
        )
        assert [(e.replica, e.engine, e.usage_ratio) for e in view.engines] == [
            ("node-1", "", 0.9),
            ("node-1", "0", 0.1),
            ("node-1", "1", 0.5),
            ("node-2", "0", 0.7),
        ]

    def test_readings_without_lines_leave_the_counts_of_lines_alone(self, stage: Stage) -> None:
        from_trace = trace_reading(kv())
        without_lines = TraceReading(records=(metrics(),), lines={}, dropped_bytes=0, files=0)
        view = stage.at(0.0, from_trace, without_lines)
        assert (view.trace_lines, view.dropped_bytes) == ({"accepted": 1}, 7)


class TestCounters:
    def test_the_plugin_takes_over_without_a_jump(self, stage: Stage) -> None:
        stage.at(0.0, trace_reading(metrics(preemptions=100)))
        stage.at(1.0, trace_reading(metrics(1.0, preemptions=104)))
        counts = [
            stage.engine_at(
                float(second),
                trace_reading(kv(float(second), preemptions=7 * second)),
                trace_reading(metrics(float(second), preemptions=104 + second)),
            ).counters.preemptions
            for second in (2, 3, 4)
        ]
        assert counts == [104, 104 + 7, 104 + 14]

    def test_metrics_take_over_from_a_silent_plugin_without_a_jump(self, stage: Stage) -> None:
        stage.at(0.0, trace_reading(kv(preemptions=5)), trace_reading(metrics(preemptions=900)))
        counts = [
            stage.engine_at(
                float(second), trace_reading(metrics(float(second), preemptions=900 + 10 * second))
            ).counters.preemptions
            for second in (1, 2, 3, 4, 5)
        ]
        assert counts == [5, 5, 5, 5, 15]

    def test_a_plugin_that_was_paused_comes_back_without_a_jump(self, stage: Stage) -> None:
        stage.at(0.0, trace_reading(kv(preemptions=5)), trace_reading(metrics(preemptions=50)))
        stage.at(10.0, trace_reading(metrics(10.0, preemptions=70)))
        stage.at(11.0, trace_reading(metrics(11.0, preemptions=72)))
        engine = stage.engine_at(12.0, trace_reading(kv(12.0, preemptions=30)))
        assert engine.counters.preemptions == 7
        engine = stage.engine_at(13.0, trace_reading(kv(13.0, preemptions=31)))
        assert engine.counters.preemptions == 8

    def test_each_counter_has_its_own_origin(self, stage: Stage) -> None:
        engine = stage.engine_at(
            0.0,
            trace_reading(kv(evictions=4, tokens=ScheduledTokens(5, 6))),
            trace_reading(metrics(preemptions=3, evictions=90)),
        )
        counters = engine.counters
        assert (counters.evictions, counters.preemptions) == (4, 3)
        assert (counters.prompt_tokens, counters.generation_tokens) == (5, 6)

    def test_a_counter_that_nobody_tells_any_more_is_absent(self, stage: Stage) -> None:
        stage.at(0.0, trace_reading(metrics(preemptions=3)), trace_reading(log(usage_ratio=0.5)))
        engine = stage.engine_at(4.0)
        assert engine.is_up
        assert engine.counters.preemptions is None
        assert stage.engine_at(5.0, trace_reading(metrics(5.0, preemptions=4))).counters == (
            type(engine.counters)(preemptions=4)
        )

    def test_a_restart_that_both_see_is_one(self, stage: Stage) -> None:
        stage.at(0.0, trace_reading(kv(preemptions=9)), trace_reading(metrics(preemptions=9)))
        engine = stage.engine_at(
            20.0,
            trace_reading(kv(20.0, pid=11, preemptions=2)),
            trace_reading(metrics(20.0, preemptions=2)),
        )
        assert (engine.counters.restarts, engine.counters.preemptions) == (1, 11)

    def test_metrics_that_go_back_are_a_restart(self, stage: Stage) -> None:
        stage.at(0.0, trace_reading(metrics(prefix_cache=PrefixCache(1000, 900))))
        engine = stage.engine_at(1.0, trace_reading(metrics(1.0, prefix_cache=PrefixCache(20, 12))))
        counters = engine.counters
        assert (counters.restarts, counters.query_tokens, counters.hit_tokens) == (1, 1020, 912)

    def test_the_hit_ratio_is_of_one_origin_at_a_time(self, stage: Stage) -> None:
        def at(second: int, plugin: PrefixCache | None, other: PrefixCache) -> EngineView:
            at_s = float(second)
            readings = [trace_reading(metrics(at_s, prefix_cache=other))]
            if plugin:
                readings.append(trace_reading(kv(at_s, prefix_cache=plugin)))
            return stage.engine_at(at_s, *readings)

        at(0, PrefixCache(100, 50), PrefixCache(7000, 0))
        assert at(1, PrefixCache(200, 75), PrefixCache(9000, 0)).hit_ratio == 0.25
        for second in range(2, 7):
            engine = at(second, None, PrefixCache(9000 + 100 * second, 60 * second))
        assert engine.hit_ratio == (25 + 60) / (100 + 100)


class TestChoice:
    @pytest.mark.parametrize(
        ("first", "second", "at_s", "is_taken"),
        [
            ("log", "plugin", 0.0, True),
            ("metrics", "metrics", 0.0, True),
            ("plugin", "metrics", 3.0, False),
            ("plugin", "metrics", 3.1, True),
            ("metrics", "plugin", -2.0, True),
            ("metrics", "plugin", -600.0, False),
        ],
        ids=[
            "a better one",
            "the same",
            "a worse one",
            "a worse one after silence",
            "a better one, a little older",
            "a better one, of long ago",
        ],
    )
    def test_who_takes_over(
        self, first: Origin, second: Origin, at_s: float, is_taken: bool
    ) -> None:
        choice = OriginChoice()
        assert choice.take(kv(origin=first), 0.0)
        assert choice.take(kv(origin=second), at_s) == is_taken
        assert choice.origin == (second if is_taken else first)

    def test_before_the_first_telling_everyone_is_silent(self) -> None:
        counter = OriginCounter()
        assert counter.choice.is_silent(0.0)
        assert (counter.total, counter.shown(0.0)) == (None, None)
        assert not counter.update(None, kv(), 0.0)
        assert counter.total is None

    def test_an_untold_count_leaves_the_choice_to_who_tells_it(self) -> None:
        counter = OriginCounter()
        counter.update(7, metrics(), 0.0)
        counter.update(None, kv(), 0.0)
        assert (counter.choice.origin, counter.total) == ("metrics", 7)
