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
    "h200x2_exhaustion": bundled_path("h200x2_exhaustion"),
    "h200x2_engines": GOLDEN / "h200x2_engines.jsonl.gz",
}


# Seconds into the recording, rules evaluated every 5 s: scraped at least every 5 s, and every 15 s.
FIRED = {
    "large_pool": ({}, {}),
    "small_pool": ({}, {}),
    "preemption": ({KV_EXHAUSTED: 10}, {KV_EXHAUSTED: 20}),
    "tp4_cotenant": ({CO_TENANT: 30}, {CO_TENANT: 30}),
    "h200_exhaustion": (
        {CO_TENANT: 20, KV_EXHAUSTED: 25},
        {CO_TENANT: 30, KV_EXHAUSTED: 35},
    ),
    "h200x2_exhaustion": (
        {CO_TENANT: 80, KV_EXHAUSTED: 65},
        {CO_TENANT: 90, KV_EXHAUSTED: 65},
    ),
    "h200x2_engines": (
        {CO_TENANT: 50, KV_EXHAUSTED: 45},
        {CO_TENANT: 60, KV_EXHAUSTED: 50},
    ),
}


@pytest.mark.parametrize("scrape_interval_s", [0.5, 1.0, 5.0, 15.0])
@pytest.mark.parametrize("name", RECORDINGS)
def test_what_was_wrong_fires_and_nothing_else(
    tmp_path: Path, name: str, scrape_interval_s: float
) -> None:
    often, seldom = FIRED[name]
    fired = often if scrape_interval_s <= 5 else seldom
    test = tmp_path / "recording_test.yml"
    test.write_text(unit_test(RECORDINGS[name], scrape_interval_s, 5, fired))
    command = [require_program("promtool"), "test", "rules", str(test)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
