"""Names are an API: the table against the list in git, the page, and Prometheus's own lint."""

import subprocess
from pathlib import Path

import pytest
from prometheus_client.exposition import generate_latest

from exporter.records.view import View
from exporter.views.metrics.exposition import Exposition
from exporter.views.metrics.reference import main
from exporter.views.metrics.table import FAMILIES
from tests.programs import require_program
from tests.views import bare_view, gpu_view, make_view

ROOT = Path(__file__).parents[2]


def test_b13_names_kinds_and_labels_are_the_agreed_ones() -> None:
    table = [f"{f.name} {f.kind} {','.join(f.labels)}".rstrip() for f in FAMILIES]
    agreed = (ROOT / "tests/golden/metric_names.txt").read_text().splitlines()
    assert sorted(table) == agreed


def test_a14_no_name_takes_traffic_of_the_memory_for_its_fullness() -> None:
    names = [family.name for family in FAMILIES if family.name.startswith("gpu_")]
    assert "gpu_memory_controller_utilization_ratio" in names
    assert "gpu_memory_pressure_ratio" in names
    assert not [name for name in names if "memory_utilization" in name]


def test_b12_labels_that_prometheus_adds_to_a_target_are_none_of_ours() -> None:
    added = {"instance", "job", "pod", "namespace", "container", "node", "host", "endpoint"}
    ours = {family.name for family in FAMILIES if added.intersection(family.labels)}
    assert ours == {"gpu_pod_info"}  # whose whole meaning is another pod than ours


def test_no_name_stands_in_the_table_twice() -> None:
    names = [family.name for family in FAMILIES]
    assert len(names) == len(set(names))


def test_b23_the_reference_page_is_current() -> None:
    assert main(["--check", str(ROOT / "docs/metrics.md")]) == 0


def test_a_stale_reference_page_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stale = tmp_path / "metrics.md"
    stale.write_text("# Metrics\n")
    assert main(["--check", str(stale)]) == 1
    assert "metrics.md is out of date" in capsys.readouterr().err


@pytest.mark.parametrize("view", [make_view(), bare_view()], ids=["full", "bare"])
def test_promtool_finds_nothing_to_say(view: View) -> None:
    text = generate_latest(Exposition().registry_of(view))
    check = [require_program("promtool"), "check", "metrics"]
    lint = subprocess.run(check, input=text, capture_output=True, check=False)
    assert (lint.returncode, lint.stdout, lint.stderr) == (0, b"", b"")


def test_promtool_accepts_the_series_that_the_cap_counts() -> None:
    view = make_view(devices=(gpu_view(processes=3),))
    text = generate_latest(Exposition(max_series=2).registry_of(view))
    assert b'dropped_series_total{family="gpu_process_memory_used_bytes"} 1.0\n' in text
    check = [require_program("promtool"), "check", "metrics"]
    lint = subprocess.run(check, input=text, capture_output=True, check=False)
    assert (lint.returncode, lint.stdout, lint.stderr) == (0, b"", b"")
