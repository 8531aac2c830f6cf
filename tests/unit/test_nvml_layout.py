"""GPUs that come, go or change places while NVML is open."""

from pathlib import Path

import pytest

from exporter.sources.nvml_layout import Layout
from tests.fake_nvml import FakeGpu, Scenario
from tests.fake_nvml.loading import FakeNvml
from tests.nvml_bench import NvmlBench

GPU_IS_LOST = 15


def layout(*uuids: str | None, names: str = "") -> Layout:
    return Layout(uuids, frozenset(names))


@pytest.mark.parametrize(
    ("former", "now", "has_changed"),
    [
        pytest.param(layout("a", "b"), layout("a", "b"), False, id="the same"),
        pytest.param(layout("a"), layout("a", "b"), True, id="one came"),
        pytest.param(layout("a", "b"), layout("a"), True, id="one went"),
        pytest.param(layout("a", "b"), layout("b", "a"), True, id="places changed"),
        pytest.param(layout("a", "b"), layout("a", None), False, id="one is lost"),
        pytest.param(layout("a", None), layout("a", "b"), True, id="one answers again"),
        pytest.param(layout("a", names="x"), layout("a", names="xy"), True, id="kernel has one"),
    ],
)
def test_a_layout_changes(former: Layout, now: Layout, has_changed: bool) -> None:
    assert now.has_changed_since(former) is has_changed


def test_a_gpu_that_is_added_is_found_within_ten_seconds(fake_nvml: FakeNvml) -> None:
    bench = NvmlBench()
    fake_nvml.play(Scenario(gpus=[FakeGpu(uuid="GPU-a")]))
    bench.read()
    fake_nvml.play(Scenario(gpus=[FakeGpu(uuid="GPU-a"), FakeGpu(uuid="GPU-b")]))
    assert list(bench.samples(9.9)) == ["GPU-a"]
    assert bench.samples(0.1)["GPU-a"] is not None  # no tick without those that are there
    assert list(bench.samples(0.5)) == ["GPU-a", "GPU-b"]


def test_a_gpu_that_only_the_kernel_lists_makes_nvml_open_anew(
    fake_nvml: FakeNvml, tmp_path: Path
) -> None:
    (tmp_path / "0000:1b:00.0").mkdir()
    bench = NvmlBench(tmp_path)
    fake_nvml.play(Scenario(gpus=[FakeGpu(uuid="GPU-a")]))
    bench.read()
    (tmp_path / "0000:2b:00.0").mkdir()
    bench.read(10.0)
    bench.read(0.5)
    assert fake_nvml.calls("nvmlInitWithFlags") == 2
    bench.read(10.0)
    bench.read(0.5)
    assert fake_nvml.calls("nvmlInitWithFlags") == 2


def test_b15_gpus_that_change_places_keep_their_series(fake_nvml: FakeNvml) -> None:
    bench = NvmlBench()
    first, second = FakeGpu(uuid="GPU-a", memory_used=111), FakeGpu(uuid="GPU-b", memory_used=222)
    fake_nvml.play(Scenario(gpus=[first, second]))
    bench.read()
    fake_nvml.play(Scenario(gpus=[second, first]))
    bench.read(10.0)
    devices = bench.read(0.5).devices
    assert [
        (d.facts.index, d.facts.uuid, d.sample.memory.used_bytes)
        for d in devices
        if d.sample and d.sample.memory
    ] == [(0, "GPU-b", 222), (1, "GPU-a", 111)]


def test_a_lost_gpu_is_not_looked_for_sooner(fake_nvml: FakeNvml) -> None:
    bench = NvmlBench()
    fake_nvml.play(Scenario(gpus=[FakeGpu(uuid="GPU-a"), FakeGpu(uuid="GPU-b")]))
    bench.read()
    lost = FakeGpu(uuid="GPU-b", rc={"*": GPU_IS_LOST})
    fake_nvml.play(Scenario(gpus=[FakeGpu(uuid="GPU-a"), lost]))
    for _ in range(2):
        assert bench.samples(10.0)["GPU-b"] is None
    assert fake_nvml.calls("nvmlInitWithFlags") == 0
