"""The allocator probe with a torch of the test's own: which calls it makes, and what it says."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from exporter.plugin.allocator_probe import AllocatorProbe
from exporter.plugin.facts import identity
from exporter.records.trace import TorchRecord

GIB = 2**30
UUID = "081a3fe2-98f6-f8ff-93f1-ffdb5b387889"


class Tensor:
    def __init__(self, pointer: int, size: int, device: str = "cuda", index: int = 1) -> None:
        self.device = SimpleNamespace(type=device, index=index)
        self._storage = SimpleNamespace(data_ptr=lambda: pointer, nbytes=lambda: size)

    def untyped_storage(self) -> Any:
        return self._storage


class Torch:
    """Answers like torch.cuda on device 1, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, object]] = []
        self.is_ready = True
        self.is_recording = False
        self.reserved = 12 * GIB
        self.cuda = SimpleNamespace(
            is_initialized=lambda: self.is_ready,
            memory=SimpleNamespace(
                memory_stats_as_nested_dict=self._stats, get_allocator_backend=lambda: "native"
            ),
            mem_get_info=self._free,
            memory_snapshot=self._snapshot,
            get_device_properties=self._properties,
        )
        self._C = SimpleNamespace(_cuda_isHistoryEnabled=lambda: self.is_recording)

    def _stats(self, index: int) -> dict[str, Any]:
        self.asked.append(("stats", index))
        return {
            "allocated_bytes": {"all": {"current": 10 * GIB, "peak": 11 * GIB}},
            "reserved_bytes": {"all": {"current": self.reserved}},
            "active_bytes": {"all": {"current": 10 * GIB + 5}},
            "inactive_split_bytes": {"all": {"current": 77}},
            "num_alloc_retries": 2,
            "num_ooms": 1,
        }

    def _free(self, index: int) -> tuple[int, int]:
        self.asked.append(("free", index))
        return 60 * GIB, 80 * GIB

    def _properties(self, index: int) -> Any:
        self.asked.append(("properties", index))
        return SimpleNamespace(uuid=UUID)

    def _snapshot(self) -> list[dict[str, Any]]:
        self.asked.append(("snapshot", None))
        free = {"state": "inactive", "size": 4096}
        used = {"state": "active_allocated", "size": 9999}
        common = {"segment_pool_id": (0, 0), "total_size": 20_000, "allocated_size": 11_111}
        private = {"segment_pool_id": (0, 7), "total_size": 3000, "allocated_size": 1200}
        return [
            {"device": 1, **common, "blocks": [free, used, {"state": "inactive", "size": 512}]},
            {"device": 1, **private, "blocks": [free]},
            {"device": 0, **common, "blocks": [{"state": "inactive", "size": 10**9}]},
            {"device": 0, **private, "blocks": [free]},
        ]


class Model:
    def parameters(self) -> list[Tensor]:
        return [Tensor(1, 1000), Tensor(1, 1000), Tensor(2, 500), Tensor(3, 9, "cpu")]

    def buffers(self) -> list[Tensor]:
        return [Tensor(4, 20), Tensor(5, 7, index=0)]


class Worker(SimpleNamespace):
    """A class of its own can be referred to weakly."""


class Bench:
    """A worker, a torch, a clock and the probe of rank 3 in a 2 × 2 engine."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.torch = Torch()
        self.now_s = 100.0
        parallel = SimpleNamespace(tensor_parallel_size=2, pipeline_parallel_size=2)
        sleep = SimpleNamespace(enable_sleep_mode=False)
        caches = [Tensor(8, 4000), [Tensor(9, 4000), Tensor(9, 4000)], None]
        self.worker = Worker(
            vllm_config=SimpleNamespace(parallel_config=parallel, model_config=sleep),
            device=SimpleNamespace(type="cuda", index=1),
            model_runner=SimpleNamespace(model=Model(), kv_caches=caches),
        )
        monkeypatch.setitem(sys.modules, "torch", self.torch)
        who = identity(self.worker.vllm_config, "node", "worker", 3)
        self.probe = AllocatorProbe(self.worker, who, {}, 1.0, clock=lambda: self.now_s)

    def tick(self) -> TorchRecord | None:
        rows = self.probe.tick()
        assert all(isinstance(row, TorchRecord) for row in rows)
        return rows[0] if rows else None  # type: ignore[return-value]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def test_a_record_tells_of_the_workers_own_device(bench: Bench) -> None:
    record = bench.tick()
    assert record is not None
    assert {index for name, index in bench.torch.asked if name != "snapshot"} == {1}
    assert (record.rank, record.tp_rank, record.pp_rank) == (3, 1, 1)
    assert record.uuid == f"GPU-{UUID}"
    assert (record.allocated_bytes, record.allocated_peak_bytes) == (10 * GIB, 11 * GIB)
    assert (record.reserved_bytes, record.active_bytes) == (12 * GIB, 10 * GIB + 5)
    assert (record.inactive_split_bytes, record.alloc_retries, record.ooms) == (77, 2, 1)
    assert (record.device_free_bytes, record.device_total_bytes) == (60 * GIB, 80 * GIB)
    assert (record.weights_bytes, record.kv_pool_bytes) == (1520, 8000)
    assert record.largest_free_block_bytes == 4096
    assert (record.graph_pool_bytes, record.graph_pool_allocated_bytes) == (3000, 1200)
    assert (record.is_asleep, record.has_pluggable_allocator) == (False, False)


def test_it_speaks_every_second_and_at_once_when_reserved_changes(bench: Bench) -> None:
    assert bench.tick() is not None
    bench.now_s += 0.25
    assert bench.tick() is None
    bench.torch.reserved += 2**21
    record = bench.tick()
    assert record is not None
    assert record.reserved_bytes == 12 * GIB + 2**21
    bench.now_s += 1.0
    assert bench.tick() is not None


def test_the_snapshot_is_taken_once_a_minute(bench: Bench) -> None:
    for _ in range(130):
        bench.tick()
        bench.now_s += 1.0
    assert bench.torch.asked.count(("snapshot", None)) == 3


def test_no_snapshot_while_history_is_recorded(bench: Bench) -> None:
    bench.torch.is_recording = True
    record = bench.tick()
    assert record is not None
    assert record.largest_free_block_bytes is None
    assert ("snapshot", None) not in bench.torch.asked


def test_sleep_mode_makes_private_pools_unknown(bench: Bench) -> None:
    bench.worker.vllm_config.model_config.enable_sleep_mode = True
    record = bench.tick()
    assert record is not None
    assert (record.has_pluggable_allocator, record.is_asleep) == (True, None)
    assert (record.graph_pool_bytes, record.graph_pool_allocated_bytes) == (None, None)


@pytest.mark.parametrize("state", ["no device yet", "CUDA not initialised", "no torch"])
def test_it_waits_until_cuda_is_up(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    if state == "no device yet":
        bench.worker.device = None
    elif state == "no torch":
        monkeypatch.delitem(sys.modules, "torch")
    else:
        bench.torch.is_ready = False
    assert bench.tick() is None
    assert not bench.torch.asked
    assert bench.probe.facts(0, 0).status == "active"


def test_another_kind_of_device_is_told_and_never_read(bench: Bench) -> None:
    bench.worker.device = SimpleNamespace(type="cpu", index=None)
    assert bench.tick() is None
    facts = bench.probe.facts(0, 0)
    assert (facts.status, facts.reason) == ("unsupported", "cuda_unavailable")
    assert (facts.role, facts.rank) == ("worker", 3)
    assert not bench.torch.asked


def test_weights_and_pool_wait_for_the_pool(bench: Bench) -> None:
    bench.worker.model_runner.kv_caches = []
    record = bench.tick()
    assert record is not None
    assert (record.weights_bytes, record.kv_pool_bytes) == (None, None)
    assert ("snapshot", None) not in bench.torch.asked


def test_a_torch_that_fails_ten_times_is_left_alone(bench: Bench) -> None:
    def explode(index: int) -> None:
        raise RuntimeError(f"CUDA error on {index}")

    bench.torch.cuda.memory.memory_stats_as_nested_dict = explode
    for _ in range(12):
        assert bench.tick() is None
    facts = bench.probe.facts(0, 0)
    assert (facts.status, facts.errors) == ("unsupported", 10)
    assert facts.reason == "torch: off after 10 × RuntimeError"


def test_a_record_that_contradicts_itself_is_not_written(bench: Bench) -> None:
    bench.torch.reserved = 5 * GIB  # less than what is allocated
    assert bench.tick() is None
    assert bench.probe.facts(0, 0).errors == 1


def test_the_probe_ends_with_its_worker(bench: Bench) -> None:
    states = [bench.probe.is_gone]
    del bench.worker
    assert [*states, bench.probe.is_gone] == [False, True]
    assert bench.probe.tick() == ()
