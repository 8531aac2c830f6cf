"""The life of a tap beside its samples: pause, idle engine, fork, status, the worst tables."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from exporter.plugin import attachment
from exporter.plugin.hooks import TAP_ATTRIBUTE
from exporter.plugin.scheduler_tap import LAP_MAX_AGE_S, SILENT_AFTER_S
from exporter.records.trace import KvRecord, PageTableRecord
from tests.engine import truth
from tests.engine.driver import Load, drive, make_scheduler, write_model
from tests.engine.tapped import Tapped

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def tapped(model: Path) -> Tapped:
    return Tapped(model)


def run(tapped: Tapped, steps: int, seed: int = 2) -> None:
    for _ in drive(tapped.scheduler, Load(seed), steps):
        tapped.pass_time()


def pages(record: KvRecord) -> tuple[Any, ...]:
    table = record.page_table
    assert table is not None
    return (table.num_pages, table.contiguous_pages, table.descending_pages, table.tables)


def test_a_paused_tap_does_nothing_and_then_goes_on_with_the_truth(tapped: Tapped) -> None:
    run(tapped, 20)
    tapped.take()
    tapped.tap.set_paused(True)
    assert tapped.tap.facts(0, 0).reason == "paused"
    run(tapped, 20, seed=3)
    assert not tapped.take()
    tapped.tap.set_paused(False)
    assert tapped.tap.facts(0, 0).status == "active"
    for _ in drive(tapped.scheduler, Load(4), 20):
        for record in tapped.take():
            assert pages(record) == truth.page_tables(tapped.scheduler)[0]
        tapped.pass_time()


def test_an_idle_engine_is_sampled_from_outside_every_interval(tapped: Tapped) -> None:
    run(tapped, 30)
    tapped.pass_time(-0.5)
    assert not tapped.tap.tick()  # not one interval has passed since the last step
    tapped.pass_time(0.6)
    (record,) = tapped.tap.tick()
    assert isinstance(record, KvRecord)
    assert pages(record) == truth.page_tables(tapped.scheduler)[0]
    expected = truth.pool(tapped.scheduler)
    assert record.blocks is not None
    assert (record.blocks.num_free, record.blocks.cached, record.blocks.shared) == (
        expected["free"],
        expected["cached"],
        expected["shared"],
    )
    assert record.free_runs is not None
    assert record.free_runs.longest_run_blocks == expected["longest"]
    assert not tapped.tap.tick()
    tapped.pass_time(1.1)
    assert len(tapped.tap.tick()) == 1


def test_what_changes_while_idle_is_seen(tapped: Tapped) -> None:
    from vllm.v1.request import RequestStatus

    run(tapped, 30)
    tapped.pass_time(1.1)
    tapped.tap.tick()
    scheduler = tapped.scheduler
    scheduler.finish_requests(list(scheduler.requests), RequestStatus.FINISHED_ABORTED)
    tapped.pass_time(1.1)
    (record,) = tapped.tap.tick()
    assert isinstance(record, KvRecord)
    assert pages(record) == (0, 0, 0, 0)
    assert record.blocks is not None
    assert (record.blocks.active, record.blocks.cached) == (0, truth.pool(scheduler)["cached"])
    assert scheduler.reset_prefix_cache()
    tapped.pass_time(LAP_MAX_AGE_S + 1)
    (record,) = tapped.tap.tick()
    assert isinstance(record, KvRecord)
    assert record.blocks is not None
    assert record.blocks.cached == 0


def test_a_step_never_waits_for_a_sample_in_another_thread(tapped: Tapped) -> None:
    run(tapped, 10)
    taken = len(tapped.take())
    with tapped.tap._lock:
        worker = threading.Thread(target=run, args=(tapped, 10, 5))
        worker.start()
        worker.join(20)
        assert not worker.is_alive()
    assert taken > 0
    assert not tapped.take()


def test_a_scheduler_that_replaces_schedule_is_told(tapped: Tapped) -> None:
    delattr(tapped.scheduler, TAP_ATTRIBUTE)
    run(tapped, 3)
    assert tapped.tap.facts(0, 0).status == "active"
    tapped.pass_time(SILENT_AFTER_S + 1)
    facts = tapped.tap.facts(0, 0)
    assert (facts.status, facts.reason) == ("degraded", "schedule() is not called")


def test_a_change_of_status_is_told_once(tapped: Tapped) -> None:
    assert [tapped.tap.take_status_change() for _ in range(3)] == [True, False, False]
    tapped.tap.set_paused(True)
    assert [tapped.tap.take_status_change() for _ in range(2)] == [True, False]


def test_the_worst_tables_are_described_without_their_names(model: Path) -> None:
    tapped = Tapped(model, worst_tables=3)
    run(tapped, 40)
    described = [r for r in tapped.records if isinstance(r, PageTableRecord)]
    assert len(described) == 4  # every 10 of 40 seconds
    rows = described[-1].tables
    assert rows is not None
    assert len(rows) == 3
    assert sorted(rows, key=lambda row: -row[1]) == list(rows)
    assert all(pages >= extents > 0 for pages, extents, _ in rows)


def test_a_forked_child_is_silent(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_MEMORY_TRACE_DIR", str(tmp_path))
    Tapped(model)  # wraps vLLM's classes
    scheduler = make_scheduler(model)
    tap = getattr(scheduler, TAP_ATTRIBUTE)
    child = os.fork()
    if child == 0:
        for _ in drive(scheduler, Load(6), 3):
            pass
        os._exit(tap._steps)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    for _ in drive(scheduler, Load(6), 3):
        pass
    assert tap._steps == 3
    assert tap in attachment._taps


def test_long_prompts_at_slow_steps_do_not_put_a_sample_off(model: Path) -> None:
    # each step takes 0.4 s and brings up to 512 blocks, more than it works off of the backlog
    tapped = Tapped(model, blocks=20_000, max_seqs=256, max_tokens=8192)
    load = Load(5, prefixes=1)
    for _ in range(200):
        tapped.scheduler.add_request(load.request(prompt=1500, output=100))
    counts = []
    for _ in drive(tapped.scheduler, load, 40):
        counts.append(len(tapped.take()))
        tapped.pass_time(0.4)
    # due every 1 s and late by at most one step and what is left of another: 16 s have 8 samples
    assert sum(counts) >= 8
