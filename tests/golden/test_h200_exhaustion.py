"""The incident of a real H200: vLLM 0.25.1 with the plugin, KV exhaustion, then a co-tenant.

What torch and vLLM themselves said of the engine at its end was taken beside the recording.
"""

from pathlib import Path

import pytest

from tests.daemon import samples_of

HERE = Path(__file__).parent
GPU = 'device="cuda:0",uuid="GPU-00000001-0000-4000-8000-000000000001"'
ENGINE = 'engine="0",model_name="llama-3-8b-shape",replica="vllm-0"'
RANK = (
    'device="cuda:0",engine="0",model_name="llama-3-8b-shape",rank="0",replica="vllm-0",'
    'uuid="GPU-00000001-0000-4000-8000-000000000001"'
)


@pytest.fixture
def incident() -> dict[str, float]:
    return samples_of((HERE / "h200_exhaustion_at_25s.txt").read_text())


@pytest.fixture
def idle() -> dict[str, float]:
    return samples_of((HERE / "h200_exhaustion_at_63s.txt").read_text())


def test_the_pool_is_full_and_requests_are_preempted(incident: dict[str, float]) -> None:
    assert incident[f"vllm_kv_cache_usage_ratio{{{ENGINE}}}"] == 57157 / 57166
    assert incident[f"gpu_memory_effective_pressure_window_max_ratio{{{GPU}}}"] == 1
    assert incident[f"vllm_engine_preemptions_total{{{ENGINE}}}"] == 9
    assert incident[f'vllm_engine_requests{{{ENGINE},state="waiting"}}'] == 9


def test_the_cotenant_is_on_the_gpu_with_its_7_5_gib_and_its_context(
    incident: dict[str, float],
) -> None:
    series = (
        'gpu_process_memory_used_bytes{device="cuda:0",pid="1252",process_name="python3",'
        'uuid="GPU-00000001-0000-4000-8000-000000000001"}'
    )
    assert 0 < incident[series] - 8_053_063_680 < 600e6


def test_counters_at_the_end_are_vllms_own(idle: dict[str, float]) -> None:
    # vLLM's metrics at that time: 2,473,413 queries, 376,064 hits, 31 preemptions
    assert idle[f"vllm_kv_cache_query_tokens_total{{{ENGINE}}}"] == 2_473_413
    assert idle[f"vllm_kv_cache_hit_tokens_total{{{ENGINE}}}"] == 376_064
    assert idle[f"vllm_engine_preemptions_total{{{ENGINE}}}"] == 31


def test_the_allocator_at_the_end_is_as_torch_told_it(idle: dict[str, float]) -> None:
    # torch.cuda.memory_stats and mem_get_info in the worker at that time
    told = {
        "allocated": 136_269_484_032,
        "reserved": 139_211_046_912,
        "inactive_split": 267_694_080,
        "device_free": 9_811_656_704,
        "device_total": 150_109_880_320,
    }
    assert {name: idle[f"vllm_torch_{name}_bytes{{{RANK}}}"] for name in told} == told
    # gap − inactive split + free − (peak 138,081,432,576 − allocated)
    margin = 2_941_562_880 - 267_694_080 + 9_811_656_704 - 1_811_948_544
    assert idle[f"vllm_torch_oom_margin_bytes{{{RANK}}}"] == margin


def test_an_idle_pool_holds_prefixes_in_a_scrambled_queue(idle: dict[str, float]) -> None:
    assert idle[f'vllm_kv_cache_blocks{{{ENGINE},state="active"}}'] == 0
    assert idle[f'vllm_kv_cache_blocks{{{ENGINE},state="cached"}}'] == 57_165
    assert idle[f'vllm_kv_cache_blocks{{{ENGINE},state="free"}}'] == 1
    assert idle[f"vllm_kv_cache_free_queue_contiguity_ratio{{{ENGINE}}}"] == 74 / 256
    assert f"vllm_page_table_contiguity_ratio{{{ENGINE}}}" not in idle
