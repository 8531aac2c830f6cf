"""The incident of two real H200: vLLM 0.25.1 with the plugin, tensor parallel 2, as /metrics says.

The figures were read from the recording's lines of that moment.
"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from exporter.recordings import bundled_path
from exporter.records.device_detail import DetailReading
from exporter.records.trace import KvRecord, TraceReading
from exporter.sources.recording import Recording
from tests.daemon import samples_of

HERE = Path(__file__).parent
ENGINE = 'engine="0",model_name="llama-3-8b-shape",replica="vllm-0"'
BLOCKS, USABLE = 119_997, 119_996
PROMPTS_UNIX_S = (1_795_977_975, 1_795_977_994)
"""Nearly all tokens of this time are of prompts: the pool fills up."""


def labels(gpu: int, **more: str) -> str:
    """Of a GPU and what `more` says, as an exposition writes them."""
    uuid = f"GPU-{gpu + 1:08x}-0000-4000-8000-{gpu + 1:012x}"
    every = {"device": f"cuda:{gpu}", "uuid": uuid, **more}
    return ",".join(f'{name}="{every[name]}"' for name in sorted(every))


DEVICES = [labels(gpu) for gpu in (0, 1)]
RANKS = [
    labels(gpu, engine="0", model_name="llama-3-8b-shape", rank=str(gpu), replica="vllm-0")
    for gpu in (0, 1)
]


@pytest.fixture
def incident() -> dict[str, float]:
    return samples_of((HERE / "h200x2_exhaustion_at_85s.txt").read_text())


@pytest.fixture
def idle() -> dict[str, float]:
    return samples_of((HERE / "h200x2_exhaustion_at_107s.txt").read_text())


def of_owner(samples: dict[str, float], owner: str) -> list[float]:
    return [samples[f"gpu_memory_ledger_bytes{{{labels(gpu, owner=owner)}}}"] for gpu in (0, 1)]


def test_one_engine_fills_both_gpus(incident: dict[str, float]) -> None:
    assert incident[f"vllm_kv_cache_usage_ratio{{{ENGINE}}}"] == 119_651 / USABLE
    assert incident[f"vllm_kv_cache_usage_window_max_ratio{{{ENGINE}}}"] == 119_995 / USABLE
    for device in DEVICES:
        assert incident[f"gpu_memory_effective_pressure_ratio{{{device}}}"] == 119_651 / USABLE
    assert incident[f"vllm_engine_preemptions_total{{{ENGINE}}}"] == 7
    assert incident[f'vllm_engine_requests{{{ENGINE},state="waiting"}}'] == 66
    assert incident[f"vllm_kv_cache_headroom_tokens{{{ENGINE}}}"] == 345 * 16


def test_each_rank_holds_half_of_weights_and_pool(incident: dict[str, float]) -> None:
    assert of_owner(incident, "kv_active") == [119_651 * 2**20] * 2  # half of 2 MiB a block
    for rank in RANKS:
        assert incident[f"vllm_torch_kv_pool_bytes{{{rank}}}"] == BLOCKS * 2**20
        assert incident[f"vllm_torch_weights_bytes{{{rank}}}"] == 8_032_625_152


def test_the_co_tenant_is_counted_on_gpu_1_where_it_took_its_memory(
    incident: dict[str, float],
) -> None:
    # 6 GiB on GPU 1, and a context of half a gigabyte on each
    assert of_owner(incident, "other_processes") == [543_162_368, 543_162_368 + 6 * 2**30]
    for gpu, count in enumerate((0, 1)):
        assert incident[f"gpu_memory_conflicts_total{{{labels(gpu, kind='co_tenant')}}}"] == count


def test_its_margin_is_smaller_where_the_co_tenant_is(incident: dict[str, float]) -> None:
    # gap − inactive split + free − (peak − allocated), of the records at that time
    peak = 134_714_277_888
    reserved = 135_434_076_160
    assert [incident[f"vllm_torch_oom_margin_bytes{{{rank}}}"] for rank in RANKS] == [
        (reserved - 134_182_653_952) - 66_531_328 + 10_843_848_704 - (peak - 134_182_653_952),
        (reserved - 134_182_649_856) - 66_535_424 + 4_401_397_760 - (peak - 134_182_649_856),
    ]


def test_nvlinks_carry_what_the_ranks_exchange_while_prompts_are_read() -> None:
    """Two all-reduces in each of 32 layers, of 4,096 numbers of 2 bytes a token, and the logits."""
    readings = [event.reading for event in Recording.load(bundled_path("h200x2_exhaustion")).events]
    tokens = [
        (record.ts_unix_ns, (record.tokens.prompt or 0) + (record.tokens.generation or 0))
        for reading in readings
        if isinstance(reading, TraceReading)
        for record in reading.records
        if isinstance(record, KvRecord) and record.tokens
    ]
    prompts = [
        (reading.ts_unix_ns, [gpu.counters["nvlink_transmit_bytes"] for gpu in gpus])
        for reading in readings
        if isinstance(reading, DetailReading) and (gpus := list(reading.gpus.values()))
        if PROMPTS_UNIX_S[0] <= reading.ts_unix_ns / 1e9 <= PROMPTS_UNIX_S[1]
    ]
    (begin_ns, before), (end_ns, after) = prompts[0], prompts[-1]
    processed = tokens_at(tokens, end_ns) - tokens_at(tokens, begin_ns)
    for first, last in zip(before, after, strict=True):
        assert (last - first) / processed == pytest.approx(2 * 32 * 4096 * 2, rel=0.05)


def tokens_at(tokens: Sequence[tuple[int, int]], ts_unix_ns: int) -> float:
    """Between two records."""
    (begin_ns, first), (end_ns, last) = next(
        (one, other) for one, other in pairwise(tokens) if one[0] <= ts_unix_ns <= other[0]
    )
    return first + (last - first) * (ts_unix_ns - begin_ns) / (end_ns - begin_ns)


def test_idle_blocks_hold_prefixes_and_nothing_is_left_of_the_co_tenant(
    idle: dict[str, float],
) -> None:
    assert idle[f'vllm_kv_cache_blocks{{{ENGINE},state="active"}}'] == 0
    assert idle[f'vllm_kv_cache_blocks{{{ENGINE},state="cached"}}'] == 119_742
    assert idle[f'vllm_kv_cache_blocks{{{ENGINE},state="free"}}'] == USABLE - 119_742
    assert idle[f"vllm_engine_preemptions_total{{{ENGINE}}}"] == 8
    assert of_owner(idle, "other_processes") == [0, 0]
    assert of_owner(idle, "free") == [11_392_843_776] * 2
