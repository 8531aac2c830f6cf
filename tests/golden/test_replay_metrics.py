"""The real program on recorded data, against what it said when a person last looked."""

from pathlib import Path

import pytest

from exporter.recordings import DEMO, bundled_path
from tests.daemon import running, samples_of
from tests.golden.capture import GOLDEN, exposition, without_own

GPU_1 = 'device="cuda:1",uuid="GPU-00000002-0000-4000-8000-000000000002"'
ENGINE = 'engine="0",model_name="llama-3-8b-shape",replica="vllm-0"'
RANK_1 = (
    'device="cuda:1",engine="0",model_name="llama-3-8b-shape",rank="1",replica="vllm-0",'
    'uuid="GPU-00000002-0000-4000-8000-000000000002"'
)


def tp4() -> Path:
    (path,) = [path for path in GOLDEN if path.name.startswith("tp4_cotenant")]
    return path


def uuid_of(series: str) -> str:
    return series.partition('uuid="')[2].partition('"')[0]


@pytest.mark.parametrize("path", GOLDEN, ids=[path.name for path in GOLDEN])
def test_a_frozen_replay_says_what_it_always_said(path: Path) -> None:
    assert exposition(*GOLDEN[path]) == path.read_text()


def test_the_golden_exposition_has_the_figures_of_the_recorded_machine() -> None:
    # the machine's second 1795960065, as worked out by hand from its raw samples
    samples = samples_of(tp4().read_text())
    assert samples[f"gpu_memory_free_bytes{{{GPU_1}}}"] == 132_285_726_720
    assert samples[f"gpu_memory_reserved_bytes{{{GPU_1}}}"] == 644_939_776
    used_bytes = 150_754_820_096 - 132_285_726_720 - 644_939_776
    assert samples[f"gpu_memory_used_bytes{{{GPU_1}}}"] == used_bytes
    assert samples[f"gpu_memory_pressure_ratio{{{GPU_1}}}"] == pytest.approx(
        used_bytes / (150_754_820_096 - 644_939_776)
    )
    assert samples[f"gpu_processes{{{GPU_1}}}"] == 2
    # 1,887,436,800 bytes of active KV are 3,600 blocks of 524,288; usable are 5,999
    assert samples[f'vllm_kv_cache_blocks{{{ENGINE},state="active"}}'] == 3600
    assert samples[f"gpu_memory_effective_pressure_ratio{{{GPU_1}}}"] == 3600 / 5999
    assert samples[f"vllm_torch_fragmentation_bytes{{{RANK_1}}}"] == 854_537_728


def test_owners_of_each_gpu_sum_to_its_total_exactly() -> None:
    samples = samples_of(tp4().read_text())
    totals = {
        uuid_of(series): value
        for series, value in samples.items()
        if series.startswith("gpu_memory_total_bytes")
    }
    owned = dict.fromkeys(totals, 0.0)
    for series, value in samples.items():
        if series.startswith("gpu_memory_ledger_bytes"):
            assert value >= 0
            owned[uuid_of(series)] += value
    assert len(totals) == 4
    assert owned == totals


def test_the_golden_exposition_has_the_ledger_that_was_worked_out_by_hand() -> None:
    samples = samples_of(tp4().read_text())
    device, uuid = GPU_1.split(",")
    owners = {
        "driver_reserved": 644_939_776,
        "free": 132_285_726_720,
        "unattributed": 15_138_816,
        "other_processes": 7_084_179_456,
        "kv_active": 1_887_436_800,
        "kv_unsplit": 1_257_766_912,
        "kv_null": 524_288,
        "torch_other": 4_201_695_744,
        "allocator_slack": 854_537_728,
        "non_torch": 2_522_873_856,
    }
    assert {
        series: value
        for series, value in samples.items()
        if series.startswith(f"gpu_memory_ledger_bytes{{{device},")
    } == {
        f'gpu_memory_ledger_bytes{{{device},owner="{owner}",{uuid}}}': value
        for owner, value in owners.items()
    }
    assert samples[f"gpu_memory_effective_used_bytes{{{GPU_1}}}"] == (
        150_754_820_096 - 132_285_726_720 - 644_939_776 - 1_257_766_912 - 854_537_728
    )
    assert samples[f'gpu_memory_conflicts_total{{{device},kind="co_tenant",{uuid}}}'] == 1


def test_two_scrapes_of_a_frozen_replay_differ_only_in_the_exporters_own() -> None:
    flags = ("--replay", str(bundled_path()), "--replay.freeze-at", "20")
    with running("serve", *flags) as daemon:
        first, second = (without_own(daemon.get("/metrics")[1].decode()) for _ in range(2))
        as_openmetrics = daemon.get("/metrics", Accept="application/openmetrics-text")[1].decode()
    assert first == second
    assert first.count("\n") > 200
    assert as_openmetrics.endswith("# EOF\n")


def test_a_replay_says_so_everywhere() -> None:
    with running("demo") as daemon:
        daemon.wait_for(lambda samples: f"vllm_engine_up{{{ENGINE}}}" in samples)
        assert daemon.samples()[f'vllm_memory_exporter_replay{{recording="{DEMO}"}}'] == 1
        assert f"Replay of <b>{DEMO}</b>" in daemon.get("/")[1].decode()
        assert f'"replay":"{DEMO}"'.encode() in daemon.get("/api/view")[1]
        assert any("replaying" in line for line in daemon.log)
