"""A vLLM whose internals differ, and probes that fail or dawdle: vLLM schedules all the same."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from exporter.plugin import attachment, hooks
from exporter.plugin.block_probe import BlockProbe
from exporter.plugin.flow_counts import FlowCounts
from exporter.plugin.kv_sample import KvSampler
from exporter.plugin.pool_scan import PoolScan
from exporter.plugin.scheduler_tap import SchedulerTap
from tests.engine import truth
from tests.engine.driver import Load, drive, make_scheduler, write_model
from tests.engine.tapped import Tapped, wrap_engine

pytestmark = pytest.mark.engine

STEPS = 150
MISSING = object()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def plain(model: Path) -> list[object]:
    """What vLLM schedules without a tap."""
    return schedules(make_scheduler(model), lambda: None)


def schedules(scheduler: Any, after_step: Callable[[], None]) -> list[object]:
    """All that a worker is told in STEPS steps."""
    told: list[object] = []
    for output in drive(scheduler, Load(seed=9), STEPS):
        cached = output.scheduled_cached_reqs
        told.append(
            (
                dict(output.num_scheduled_tokens),
                [(new.req_id, new.block_ids) for new in output.scheduled_new_reqs],
                list(zip(cached.req_ids, cached.new_block_ids, strict=True)),
                sorted(output.preempted_req_ids or ()),
                sorted(output.finished_req_ids),
            )
        )
        after_step()
    return told


class Altered:
    """One of vLLM's objects as the plugin would see it if attributes were missing or different."""

    def __init__(self, target: Any, changes: Mapping[str, object]) -> None:
        vars(self).update(_target=target, _changes=changes)

    def __getattr__(self, name: str) -> Any:
        if name in self._changes:
            if self._changes[name] is MISSING:
                raise AttributeError(name, name=name, obj=self._target)
            return self._changes[name]
        return self._wrapped(getattr(self._target, name))

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._target, name, value)

    def __len__(self) -> int:
        return len(self._target)

    def _wrapped(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self._wrapped, value))
        is_vllm = type(value).__module__.startswith("vllm.")
        return Altered(value, self._changes) if is_vllm else value


class AlteredTap:
    """Stands where the hook finds the tap, and shows it the altered engine."""

    def __init__(self, tap: SchedulerTap, changes: Mapping[str, object]) -> None:
        self._tap, self._changes = tap, changes

    def on_step(self, scheduler: Any, output: Any) -> None:
        self._tap.on_step(self._tap_scheduler(scheduler), Altered(output, self._changes))

    def _tap_scheduler(self, scheduler: Any) -> Any:
        return Altered(scheduler, self._changes)


NONE = MISSING
ALTERED: dict[str, tuple[dict[str, object], set[str]]] = {
    "no live tables, but get_blocks": ({"single_type_managers": NONE}, set()),
    "no tables at all": ({"single_type_managers": NONE, "get_blocks": NONE}, {"page_table"}),
    "no groups": ({"kv_cache_config": NONE}, {"page_table"}),
    "no pool": ({"block_pool": NONE}, {"pool", "evictions"}),
    "no free queue": ({"free_block_queue": NONE}, {"pool"}),
    "no null block": ({"null_block": NONE}, {"pool"}),
    "no eviction method": ({"_maybe_evict_cached_block": NONE}, {"evictions"}),
    "another eviction method": (
        {"_maybe_evict_cached_block": lambda *blocks: blocks},
        {"evictions"},
    ),
    "no new requests": ({"scheduled_new_reqs": NONE}, {"flow"}),
    "no token counts": ({"num_scheduled_tokens": NONE}, {"flow"}),
    "no sum of tokens": ({"total_num_scheduled_tokens": NONE}, {"flow"}),
    "no queues": ({"running": NONE}, {"queues"}),
    "no requests": ({"requests": NONE}, {"flow", "slots"}),
    "no vLLM statistics": ({"prefix_cache_stats": NONE}, set()),
    "number of free blocks is a text": ({"num_free_blocks": "many"}, {"pool"}),
    "number of blocks is nothing": ({"num_gpu_blocks": None}, {"pool"}),
    "block size is a text": ({"block_size": "large"}, {"page_table"}),
    "tables are a number": ({"req_to_blocks": 7, "get_blocks": NONE}, {"page_table"}),
    "sum of tokens is a text": ({"total_num_scheduled_tokens": "12"}, {"flow"}),
    "the queue is a number": ({"waiting": 5}, {"queues"}),
    "no manager": (
        {"kv_cache_manager": NONE},
        {"page_table", "pool", "flow", "evictions"},
    ),
}


@pytest.mark.parametrize(("changes", "off"), ALTERED.values(), ids=ALTERED.keys())
def test_another_layout_costs_only_what_it_concerns(
    model: Path, plain: list[object], changes: dict[str, object], off: set[str]
) -> None:
    tapped = Tapped(model)
    scheduler = tapped.scheduler
    altered = Altered(scheduler, changes)
    tap = tapped.attach(altered)
    setattr(scheduler, hooks.TAP_ATTRIBUTE, AlteredTap(tap, changes))
    assert schedules(scheduler, tapped.pass_time) == plain

    facts = tap.facts(0, 0)
    assert facts.capabilities is not None
    assert {name for name, is_on in facts.capabilities.items() if not is_on} == off
    expected = "unsupported" if "no manager" in str(off) or len(off) > 3 else "degraded"
    assert facts.status == (expected if off else "active")
    for name in off:
        assert facts.reason is not None
        assert f"{name}: " in facts.reason
    record = tapped.take()[-1]
    assert (record.page_table is None) == ("page_table" in off)
    assert (record.blocks is None) == ("pool" in off)
    assert (record.tokens is None) == ("flow" in off)
    assert (record.running is None) == ("queues" in off)
    assert (record.slots is None) == bool({"slots", "page_table"} & off)
    if record.page_table is not None:
        pages = truth.page_tables(scheduler)[0]
        assert pages[0] >= 0  # the last step's answer has been handed back since


def explode(*args: object, **kwargs: object) -> None:
    del args, kwargs
    raise RuntimeError("a fault in the plugin")


FAULTS: dict[str, tuple[type, str, set[str]]] = {
    "counting": (FlowCounts, "count", {"flow"}),
    "the prefix cache": (FlowCounts, "prefix_cache", {"prefix_cache"}),
    "the pool in a sample": (PoolScan, "blocks", {"pool"}),
    "a slice of the pool": (PoolScan, "scan_slice", {"pool_scan"}),
    "the tables": (BlockProbe, "update", {"page_table"}),
    "the slots": (BlockProbe, "slots", {"slots"}),
    "the sample itself": (KvSampler, "sample", {"samples"}),
    "the bookkeeping": (SchedulerTap, "_work", {"samples"}),
}


@pytest.mark.parametrize(("owner", "method", "off"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_of_the_plugin_stays_in_the_plugin(
    model: Path,
    plain: list[object],
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    method: str,
    off: set[str],
) -> None:
    monkeypatch.setattr(owner, method, explode)
    tapped = Tapped(model)
    assert schedules(tapped.scheduler, lambda: tapped.pass_time(0.5)) == plain
    facts = tapped.tap.facts(0, 0)
    assert facts.status == "degraded"
    assert facts.reason == f"{next(iter(off))}: off after 10 × RuntimeError"
    assert facts.errors is not None
    assert facts.errors >= 10
    assert {name for name, is_on in (facts.capabilities or {}).items() if not is_on} == off


def test_nothing_of_the_plugin_can_break_the_making_of_a_scheduler(
    model: Path, plain: list[object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wrap_engine()
    monkeypatch.setenv("VLLM_MEMORY_TRACE_DIR", str(tmp_path))
    monkeypatch.setattr(attachment, "SchedulerTap", explode)
    assert schedules(make_scheduler(model), lambda: None) == plain


@pytest.fixture
def real_time(model: Path) -> Tapped:
    """A tap on the machine's own clock that samples ten times a second."""
    tapped = Tapped(model)
    tapped.clock = time.monotonic
    tapped.attach(tapped.scheduler, interval_s=0.1)
    return tapped


def test_a_probe_that_takes_10_ms_in_each_step_is_switched_off(
    real_time: Tapped, plain: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def dawdle(*args: object) -> None:
        calls.append(args)
        time.sleep(0.01)

    monkeypatch.setattr(FlowCounts, "count", dawdle)
    assert schedules(real_time.scheduler, lambda: None) == plain
    assert len(calls) <= 2 * 10
    assert real_time.tap.facts(0, 0).reason == "flow: off after 10 × slow step"


def test_a_sample_that_takes_10_ms_is_taken_every_5_s(
    real_time: Tapped, plain: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    update = BlockProbe.update

    def dawdle(self: BlockProbe, scheduler: Any, effort: int) -> bool:
        time.sleep(0.01)
        return update(self, scheduler, effort)

    monkeypatch.setattr(BlockProbe, "update", dawdle)
    assert schedules(real_time.scheduler, lambda: time.sleep(0.004)) == plain
    assert len(real_time.take()) == 2
    (later,) = real_time.sample_now()
    assert later.interval_s >= 5.0
