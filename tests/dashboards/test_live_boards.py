"""Every query of every panel, asked of a real Prometheus that scrapes real exporters."""

import math
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import TIMEOUT_S
from tests.dashboards.boards import (
    ANYTHING,
    BOARDS,
    Query,
    other_queries,
    panel_queries,
    panels,
)
from tests.dashboards.expected import EXPECTED, JOBS
from tests.dashboards.stage import staged
from tests.programs import require_program
from tests.prometheus import Prometheus

Series = list[dict[str, Any]]
WINDOWS = ("2s", "4s")  # $__rate_interval at scrapes of 500 ms and of 1 s
USABLE_BYTES = 150_754_820_096 - 644_939_776  # of a fake GPU
PAGE = (Path(__file__).parents[2] / "docs/dashboards.md").read_text()
_LABEL = re.compile(r"\{\{(\w+)\}\}")


@pytest.fixture(scope="module")
def stage(fake_nvml_library: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with staged(fake_nvml_library, tmp_path_factory.mktemp("stage")) as server:
        server.wait_for("count(up == 1)", lambda targets: targets == 7)
        yield server


def chosen(job: str, window: str = "4s") -> Mapping[str, str]:
    """One node, everything of it; panels that repeat by GPU are asked for the first."""
    return {**ANYTHING, "__rate_interval": window, "job": job, "vllm_job": "vllm"}


def answer(stage: Prometheus, query: Query, values: Mapping[str, str]) -> Series:
    """As Grafana asks it: now, or over the last 2 s."""
    if "$device" in query.place:
        values = {**values, "device": "cuda:0"}
    expr = query.with_values(values)
    if query.is_instant:
        return stage.ask("query", query=expr)
    now_s = time.time()
    return stage.ask("query_range", query=expr, start=f"{now_s - 2}", end=f"{now_s}", step="1")


def settled(stage: Prometheus, query: Query, values: Mapping[str, str], number: int) -> Series:
    """The answer once it has that many series, or the last one before the deadline."""
    deadline_s = time.monotonic() + TIMEOUT_S / 2
    while True:
        series = answer(stage, query, values)
        if len(series) == number or time.monotonic() > deadline_s:
            return series
        time.sleep(0.2)  # between two polls


def points(series: Mapping[str, Any]) -> list[float]:
    pairs = series["values"] if "values" in series else [series["value"]]
    return [float(value) for _at, value in pairs]


@pytest.mark.parametrize("query", panel_queries(), ids=lambda query: query.id)
@pytest.mark.parametrize("job", JOBS)
def test_a_query_gives_the_series_that_were_counted_by_hand(
    stage: Prometheus, job: str, query: Query
) -> None:
    number = EXPECTED[query.id][JOBS.index(job)]
    for window in WINDOWS:
        series = settled(stage, query, chosen(job, window), number)
        assert len(series) == number, f"{query.expr} over {window}: {series}"
        assert all(map(math.isfinite, points(one)[-1:]) for one in series)


def test_every_query_has_been_counted() -> None:
    assert sorted(EXPECTED) == sorted(query.id for query in panel_queries())


def legend(template: str, labels: Mapping[str, str]) -> str:
    """The series' name as Grafana writes it; a label that it lacks is a KeyError."""
    return _LABEL.sub(lambda match: labels[match[1]], template)


@pytest.mark.parametrize("uid", BOARDS)
def test_names_in_a_panel_are_whole_and_differ(stage: Prometheus, uid: str) -> None:
    """With all nodes chosen, so that an instance that is left out of a legend shows."""
    everything = {**ANYTHING, "vllm_job": "vllm"}
    by_place = {q.place: q for q in panel_queries() if q.board == uid}
    for panel in panels(uid, "timeseries", "bargauge"):
        names = []
        for target in panel["targets"]:
            query = by_place[f"{panel['title']} / {target['refId']}"]
            names += [
                legend(target["legendFormat"], series["metric"])
                for series in answer(stage, query, everything)
            ]
        assert len(names) == len(set(names)), f"{panel['title']}: {sorted(names)}"


@pytest.mark.parametrize("query", list(other_queries()), ids=lambda query: query.id)
def test_annotations_and_choices_are_queries_that_prometheus_takes(
    stage: Prometheus, query: Query
) -> None:
    series = stage.ask("query", query=query.with_values())
    assert series or query.place.startswith("annotation ")  # nothing has happened: no mark


def by_label(series: Series, label: str) -> dict[str, float]:
    return {one["metric"][label]: points(one)[-1] for one in series}


def query_at(identity: str) -> Query:
    (query,) = (query for query in panel_queries() if query.id == identity)
    return query


def test_heatmap_rows_are_the_gpus_and_cells_their_pressure(stage: Prometheus) -> None:
    query = query_at("gpu / Device pressure, GPU by GPU / A")
    held_gb = {"0": 90, "1": 91, "2": 60, "3": 7, "4": 0, "5": 0, "6": 0, "7": 0}
    series = settled(stage, query, chosen("fake"), 8)
    assert by_label(series, "gpu") == {gpu: gb * 1e9 / USABLE_BYTES for gpu, gb in held_gb.items()}
    effective = settled(
        stage, query_at("gpu / Effective pressure, GPU by GPU / A"), chosen("fake"), 3
    )
    assert by_label(effective, "gpu") == {"0": 0.7, "1": 0.7, "2": 0.97}


@pytest.mark.parametrize("job", JOBS)
def test_the_stack_of_owners_is_as_high_as_the_gpu(stage: Prometheus, job: str) -> None:
    query = query_at("gpu / Where the memory of $device went / A")
    series = settled(stage, query, chosen(job), EXPECTED[query.id][JOBS.index(job)])
    assert sum(by_label(series, "owner").values()) == 150_754_820_096


def test_quantiles_lie_between_the_bounds_of_the_bucket(stage: Prometheus) -> None:
    """All observations are between 0.1 and 2.5 s, so the quantile q is 0.1 + q × 2.4."""
    for board in ("Time to first token", "Time between tokens"):
        for letter, q in zip("ABC", (0.5, 0.95, 0.99), strict=True):
            query = query_at(f"kv / {board} / {letter}")
            for one in settled(stage, query, chosen("fake"), 4):
                assert points(one)[-1] == pytest.approx(0.1 + q * 2.4)


def test_waiting_is_told_by_reason_or_else_as_a_whole(stage: Prometheus) -> None:
    series = settled(stage, query_at("kv / Waiting, by reason / A"), chosen("fake"), 7)
    reasons = sorted((one["metric"]["instance"], one["metric"]["reason"]) for one in series)
    pair = [("pair", "capacity"), ("pair", "deferred")]
    assert reasons == sorted(
        [("new", "capacity"), ("new", "deferred"), ("old", "any"), *pair, *pair]
    )


def test_a_process_has_its_share_of_the_gpu(stage: Prometheus) -> None:
    series = settled(stage, query_at("gpu / Processes on the GPUs / B"), chosen("fake"), 4)
    assert by_label(series, "pid") == {
        "3999991": 90e9 / 150_754_820_096,
        "3999992": 91e9 / 150_754_820_096,
        "3999993": 60e9 / 150_754_820_096,
        "3999994": 7e9 / 150_754_820_096,
    }


@pytest.mark.parametrize(
    "query", re.findall(r"^```promql\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
)
def test_a_join_of_the_page_finds_the_pod_of_both(stage: Prometheus, query: str) -> None:
    """Engine green is at 0.97 in pod blue-0, and vLLM's pair is in that pod."""
    assert {labels[-2:] for labels in stage.wait_for(query)} == {("serving", "blue-0")}


def test_the_page_has_joins_and_a_configuration_that_promtool_takes(tmp_path: Path) -> None:
    assert PAGE.count("```promql") == 3
    (config,) = re.findall(r"^```yaml\n(scrape_configs:.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "prometheus.yml").write_text(config)
    command = [require_program("promtool"), "check", "config", str(tmp_path / "prometheus.yml")]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
