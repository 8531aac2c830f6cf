"""What the daemon said on a real H200 beside a torch program (driver 580.159.04)."""

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from exporter.views.metrics.table import FAMILIES
from tests.daemon import samples_of

HERE = Path(__file__).parent
SCRAPE = (HERE / "h200_scrape.txt").read_text()
GPU = 'device="cuda:0",uuid="GPU-00000001-0000-4000-8000-000000000001"'


@pytest.fixture
def scrape() -> dict[str, float]:
    return samples_of(SCRAPE)


def test_its_parts_of_memory_sum_to_the_total(scrape: dict[str, float]) -> None:
    total, *parts = (
        scrape[f"gpu_memory_{part}_bytes{{{GPU}}}"]
        for part in ("total", "used", "free", "reserved")
    )
    assert total == 150_754_820_096
    assert sum(parts) == total


def test_the_torch_program_holds_what_is_used_but_for_a_few_megabytes(
    scrape: dict[str, float],
) -> None:
    process = next(
        value for series, value in scrape.items() if series.startswith("gpu_process_memory")
    )
    assert 0 < scrape[f"gpu_memory_used_bytes{{{GPU}}}"] - process < 10e6


def test_every_family_of_it_is_still_in_the_table_with_its_kind_and_labels() -> None:
    table = {family.name.removesuffix("_total"): family for family in FAMILIES}
    seen = 0
    for family in text_string_to_metric_families(SCRAPE):
        if family.name.startswith("process_"):
            continue
        row = table[family.name.removesuffix("_total")]
        assert family.type == row.kind
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(row.labels)
            seen += 1
    assert seen > 60


def test_a_frozen_replay_has_a_figure_that_the_machine_had_at_that_moment() -> None:
    # 26 s after the first reading the program holds 40 GiB and one matrix of 128 MiB
    samples = samples_of((HERE / "h200_torch_at_26s.txt").read_text())
    held_bytes = 40 * 2**30 + 2**27
    used_bytes = samples[f"gpu_memory_used_bytes{{{GPU}}}"]
    assert 0 < used_bytes - held_bytes < 1e9  # the CUDA context and what torch rounds up
    assert samples[f"gpu_memory_used_window_min_bytes{{{GPU}}}"] == 0
