"""Each record against what vLLM's own scheduler says at that moment, under random load."""

import gc
from pathlib import Path
from typing import Any

import pytest

from exporter.records.trace import EngineRecord, FreeRuns, KvRecord
from tests.engine import truth
from tests.engine.driver import Load, drive, write_model
from tests.engine.tapped import Tapped

pytestmark = pytest.mark.engine

ENGINES: dict[str, dict[str, Any]] = {
    "usual": {},
    "small pool with preemptions": {"blocks": 80},
    "large pool": {"blocks": 3000, "max_seqs": 64, "max_tokens": 2048},
    "asynchronous": {"is_async": True},
    "sliding window group": {"sliding_window": 64},
    "asynchronous with sliding window group": {"sliding_window": 48, "is_async": True},
    "without prefix cache": {"caching": False},
    "without vLLM's statistics": {"log_stats": False},
}


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize("options", ENGINES.values(), ids=ENGINES.keys())
def test_each_sample_equals_what_the_scheduler_says(model: Path, options: dict[str, Any]) -> None:
    tapped = Tapped(model, **options)
    scheduler = tapped.scheduler
    load = Load(seed=len(options) + 7)
    least_free = scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
    prompt = generated = samples = 0
    for step, output in enumerate(drive(scheduler, load, 600)):
        block_pool = scheduler.kv_cache_manager.block_pool
        least_free = min(least_free, block_pool.get_num_free_blocks())
        inside, behind = truth.scheduled_tokens(scheduler, output)
        prompt, generated = prompt + inside, generated + behind
        for record in tapped.take():
            samples += 1
            assert_equals_truth(record, scheduler)
            assert record.blocks is not None
            assert record.blocks.active_peak == record.blocks.usable - least_free
            assert record.tokens is not None
            assert (record.tokens.prompt, record.tokens.generation) == (prompt, generated)
            least_free = block_pool.get_num_free_blocks()
        if step % 5 == 3:
            tapped.pass_time()
    assert samples > 100
    facts = tapped.tap.facts(0, 0)
    assert isinstance(facts, EngineRecord)
    assert (facts.status, facts.reason, facts.errors) == ("active", None, 0)
    assert facts.capabilities is not None
    assert all(facts.capabilities.values())


def assert_equals_truth(record: KvRecord, scheduler: Any) -> None:
    groups = truth.page_tables(scheduler)
    table = record.page_table
    assert table is not None
    sums = tuple(sum(column) for column in zip(*groups, strict=True))
    assert (
        table.num_pages,
        table.contiguous_pages,
        table.descending_pages,
        table.tables,
    ) == sums
    if len(groups) > 1:
        assert record.groups is not None
        rows = [g.page_table for g in record.groups]
        assert [
            (t.num_pages, t.contiguous_pages, t.descending_pages, t.tables)
            for t in rows
            if t is not None
        ] == groups
        assert [g.kind for g in record.groups] == ["FullAttentionSpec", "SlidingWindowSpec"]
    else:
        assert record.groups is None
    slots = record.slots
    assert slots is not None
    assert (slots.allocated, slots.used) == truth.slots(scheduler)
    blocks = record.blocks
    pool = scheduler.kv_cache_manager.block_pool
    assert blocks is not None
    assert (blocks.total, blocks.null) == (pool.num_gpu_blocks, 1)
    assert blocks.num_free == pool.get_num_free_blocks()
    assert record.running == len(scheduler.running)
    assert record.running + (record.waiting or 0) == len(scheduler.requests)


def test_a_lap_over_the_quiet_pool_equals_a_plain_walk(model: Path) -> None:
    tapped = Tapped(model, blocks=1500, max_seqs=64)
    for step, _ in enumerate(drive(tapped.scheduler, Load(seed=3, longest=900), 400)):
        if step % 80 == 79:
            scan = tapped.tap.probes.pool
            assert scan is not None
            scan.restart_lap()
            assert [scan.scan_slice(step) for _ in range(5)] == [False] * 4 + [True]
            expected = truth.pool(tapped.scheduler)
            lap = scan.lap
            assert lap is not None
            assert (lap.free, lap.cached, lap.shared) == (
                expected["free"],
                expected["cached"],
                expected["shared"],
            )
            assert lap.free_runs == FreeRuns(
                expected["runs"], expected["longest"], expected["walked"], expected["contiguous"]
            )


@pytest.mark.parametrize("blocks", [80, 3000])
def test_hits_and_preemptions_equal_what_vllm_publishes(model: Path, blocks: int) -> None:
    tapped = Tapped(model, blocks=blocks)
    scheduler = tapped.scheduler
    published = Published(scheduler)
    for _ in drive(scheduler, Load(seed=11), 500):
        pass
    (record,) = tapped.sample_now()
    published.read(scheduler.make_stats())
    cache = record.prefix_cache
    assert cache is not None
    assert (cache.query_tokens, cache.hit_tokens) == (published.queries, published.hits)
    assert (cache.vllm_query_tokens, cache.vllm_hit_tokens) == (published.queries, published.hits)
    assert published.hits > 0
    assert record.preemptions == published.preemptions
    assert (published.preemptions > 0) == (blocks == 80)
    assert record.evictions == published.evictions


class Published:
    """vLLM's own counts: the statistics that it hands to /metrics, and calls of its own methods."""

    def __init__(self, scheduler: Any) -> None:
        self.queries = self.hits = self.preemptions = self.evictions = 0
        make_stats, preempt = scheduler.make_stats, scheduler._preempt_request
        pool = scheduler.kv_cache_manager.block_pool
        evict = pool._maybe_evict_cached_block

        def make_and_read(*args: Any, **kwargs: Any) -> Any:
            return self.read(make_stats(*args, **kwargs))

        def count_preemption(*args: Any, **kwargs: Any) -> Any:
            self.preemptions += 1
            return preempt(*args, **kwargs)

        def count_eviction(block: Any) -> Any:
            had_hash = block.block_hash is not None
            result = evict(block)
            self.evictions += had_hash and block.block_hash is None
            return result

        scheduler.make_stats = make_and_read
        scheduler._preempt_request = count_preemption
        pool._maybe_evict_cached_block = count_eviction

    def read(self, stats: Any) -> Any:
        self.queries += stats.prefix_cache_stats.queries
        self.hits += stats.prefix_cache_stats.hits
        return stats


def test_the_scheduler_is_freed_when_vllm_lets_go_of_it(model: Path) -> None:
    tapped = Tapped(model)
    tap = tapped.tap
    for _ in drive(tapped.scheduler, Load(seed=5), 20):
        pass
    states = [tap.is_gone]
    del tapped.scheduler
    gc.collect()
    assert [*states, tap.is_gone] == [False, True]
    assert tap.tick() == ()
