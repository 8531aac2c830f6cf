"""What fires on what was measured: the alert on what was wrong, and no other."""

import subprocess
from pathlib import Path

import pytest

from exporter.recordings import bundled_path
from tests.programs import require_program
from tests.rules.scraped import unit_test

GOLDEN = Path(__file__).parents[1] / "golden"
KV_EXHAUSTED, CO_TENANT = "VLLMMemoryKVCacheExhausted", "VLLMMemoryCoTenant"


RECORDINGS = {
    "large_pool": GOLDEN / "large_pool.jsonl.gz",
    "small_pool": GOLDEN / "small_pool.jsonl.gz",
    "preemption": GOLDEN / "preemption.jsonl.gz",
    "tp4_cotenant": bundled_path("tp4_cotenant"),
    "h200_exhaustion": bundled_path("h200_exhaustion"),
}


@pytest.mark.parametrize("scrape_interval_s", [0.5, 1.0, 5.0, 15.0])
@pytest.mark.parametrize(
    ("recording", "fired"),
    [
        ("large_pool", {}),
        ("small_pool", {}),
        ("preemption", {0.5: {KV_EXHAUSTED: 10}, 15.0: {KV_EXHAUSTED: 20}}),
        ("tp4_cotenant", {0.5: {CO_TENANT: 30}, 15.0: {CO_TENANT: 30}}),
        ("h200_exhaustion", {0.5: {KV_EXHAUSTED: 25, CO_TENANT: 20}, 15.0: {KV_EXHAUSTED: 35, CO_TENANT: 30}}),
    ],
)
def test_what_was_wrong_fires_and_nothing_else(
    tmp_path: Path, recording: str, scrape_interval_s: float, fired: dict[float, dict[str, int]]
) -> None:
    test = tmp_path / "recording_test.yml"
    test.write_text(unit_test(RECORDINGS[recording], scrape_interval_s, 5, fired.get(scrape_interval_s, {})))
    command = [require_program("promtool"), "test", "rules", str(test)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
