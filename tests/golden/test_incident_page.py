"""docs/incident.md tells what was recorded: its table, line by line, and when alerts fire."""

import re
from pathlib import Path

import pytest

from exporter.recordings import DEMO, bundled_path
from tests.rules.scraped import scrapes_of
from tests.rules.test_recordings import FIRED

PAGE = (Path(__file__).parents[2] / "docs/incident.md").read_text()
LINES = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if re.match(r"\| \d", line)
]
SERIES = (
    ("vllm_kv_cache_usage_ratio", ""),
    ("vllm_kv_cache_headroom_tokens", ""),
    ("vllm_engine_requests", 'state="running"'),
    ("vllm_engine_requests", 'state="waiting"'),
    ("vllm_engine_preemptions_total", ""),
    ("gpu_memory_used_bytes", 'device="cuda:0"'),
    ("gpu_memory_used_bytes", 'device="cuda:1"'),
)


@pytest.fixture(scope="module")
def scrapes() -> list[dict[str, float]]:
    return scrapes_of(bundled_path(DEMO), 0.5)


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line[0]} s")
def test_a_line_of_the_table_is_in_the_recording(
    scrapes: list[dict[str, float]], line: list[str]
) -> None:
    second, *told, _what = line
    usage, headroom, running, waiting, preemptions, *used = (
        value_of(scrapes[int(float(second) * 2)], *which) for which in SERIES
    )
    assert told == [
        f"{usage:.0%}".replace("%", " %"),
        f"{headroom:,.0f}",
        f"{running:.0f}",
        f"{waiting:.0f}",
        f"{preemptions:.0f}",
        *(f"{used_bytes / 1e9:.1f}" for used_bytes in used),
    ]


def test_alerts_fire_in_the_lines_that_say_so() -> None:
    often, _seldom = FIRED[DEMO]
    told = {
        f"VLLMMemory{name}": float(second)
        for second, *_told, what in LINES
        for name in re.findall(r"\*\*(\w+)\*\* fires", what)
    }
    assert told == often


def value_of(scrape: dict[str, float], name: str, label: str) -> float:
    (value,) = (
        value
        for series, value in scrape.items()
        if series.partition("{")[0] == name and label in series
    )
    return value
