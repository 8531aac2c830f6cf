"""The boards as files: current, portable from Grafana 10.4 to 13, every panel explained."""

import ast
import re
import sys
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboards.generate import BOARDS as GENERATED
from dashboards.generate import main
from tests.dashboards.boards import BOARDS, DIRECTORY, panels
from tests.dashboards.known_series import RULES

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
CHOICES = ["job", "instance", "device", "model_name", "engine"]

each_board = pytest.mark.parametrize("uid", BOARDS)
each_panel = pytest.mark.parametrize(
    "panel",
    [
        pytest.param(panel, id=f"{uid.removeprefix('vllm-memory-')} / {panel['title']}")
        for uid in BOARDS
        for panel in panels(uid)
    ],
)


def test_the_files_are_what_the_generator_makes() -> None:
    assert main(["--check"]) == 0
    assert [board.uid for board in GENERATED] == sorted(BOARDS, key=_order)


def _order(uid: str) -> int:
    return ["vllm-memory-fleet", "vllm-memory-gpu", "vllm-memory-kv"].index(uid)


def test_a_file_that_is_changed_missing_or_too_many_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--directory", str(tmp_path)]) == 0
    assert main(["--check", "--directory", str(tmp_path)]) == 0
    changed, *_others = sorted(tmp_path.glob("*.json"))
    changed.write_text(changed.read_text().replace("Bytes", "bytes") + " ")
    (tmp_path / "stray.json").write_text("{}")
    assert main(["--check", "--directory", str(tmp_path)]) == 1
    complaints = capsys.readouterr().err
    assert f"{changed} is out of date" in complaints
    assert "stray.json is no board" in complaints
    changed.unlink()
    assert main(["--check", "--directory", str(tmp_path)]) == 1


def test_the_generator_needs_nothing_but_python() -> None:
    imported = {
        (node.module or "").partition(".")[0] if isinstance(node, ast.ImportFrom) else alias.name
        for file in DIRECTORY.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported - sys.stdlib_module_names == {"dashboards"}


@each_board
def test_a_board_can_be_provisioned_anywhere(uid: str) -> None:
    board = BOARDS[uid]
    assert "__inputs" not in board
    assert (board["id"], board["uid"], board["schemaVersion"]) == (None, uid, 39)
    assert board["title"].startswith("vLLM memory / ")
    assert board["description"]
    assert board["tags"] == ["gpu", "vllm"]
    assert board["graphTooltip"] == 1
    assert board["editable"] is True
    assert (DIRECTORY / f"{uid}.json").stat().st_size < 1_000_000  # a ConfigMap's limit


@each_board
def test_a_board_has_the_choices_that_its_links_carry_over(uid: str) -> None:
    source, *choices = BOARDS[uid]["templating"]["list"]
    assert (source["type"], source["name"], source["label"]) == (
        "datasource",
        "datasource",
        "Data source",
    )
    assert [choice["name"] for choice in choices][: len(CHOICES)] == CHOICES
    for choice in choices:
        assert choice["datasource"] == DATASOURCE
        assert (choice["includeAll"], choice["multi"], choice["refresh"]) == (True, True, 2)
    for link in BOARDS[uid]["links"]:
        assert (link["includeVars"], link["keepTime"]) == (True, True)
        assert "vllm" in link["tags"]


@each_board
def test_panels_have_names_of_their_own_and_do_not_overlap(uid: str) -> None:
    every = BOARDS[uid]["panels"]
    ids, titles = Counter(p["id"] for p in every), Counter(p["title"] for p in every)
    assert (max(ids.values()), max(titles.values())) == (1, 1)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in every)
    for one, other in combinations(every, 2):
        assert not _overlap(one["gridPos"], other["gridPos"]), f"{one['title']} {other['title']}"


def _overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    return all(
        one[at] < other[at] + other[size] and other[at] < one[at] + one[size]
        for at, size in (("x", "w"), ("y", "h"))
    )


@each_panel
def test_a_panel_explains_itself(panel: dict[str, Any]) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    assert panel["title"]
    assert len(panel["description"]) > 40
    assert panel["description"].endswith(".")
    assert defaults["unit"]
    if panel["type"] == "stat":  # has room for few words
        assert len(defaults["noValue"]) <= 20
        assert defaults["noValue"] in panel["description"]
    else:
        assert defaults["noValue"].endswith(".")


@each_panel
def test_a_panel_asks_the_chosen_data_source(panel: dict[str, Any]) -> None:
    assert panel["datasource"] == DATASOURCE
    assert panel["targets"]
    letters = [target["refId"] for target in panel["targets"]]
    assert letters == sorted(set(letters))
    for target in panel["targets"]:
        assert target["datasource"] == DATASOURCE
        assert target["instant"] is not target["range"]


@pytest.mark.parametrize("uid", BOARDS)
def test_a_heatmap_of_ratios_shows_zeros_gpus_in_order_and_fixed_colours(uid: str) -> None:
    for panel in panels(uid, "heatmap"):
        options, (target,) = panel["options"], panel["targets"]
        assert options["calculate"] is False
        if target["legendFormat"] == "{{le}}":
            assert target["format"] == "heatmap"
            continue
        assert target["format"] == "time_series"  # "heatmap" subtracts neighbouring GPUs
        assert target["legendFormat"].startswith("{{gpu}}")  # rows are sorted by that number
        assert options["filterValues"]["le"] == -1
        assert options["color"]["scheme"] == "Viridis"
        assert (options["color"]["min"], options["color"]["max"]) == (0, 1)
        assert "unit" not in options["yAxis"]


@pytest.mark.parametrize("uid", BOARDS)
def test_a_table_gives_units_to_figures_alone_and_dashes_where_one_is_absent(uid: str) -> None:
    """Grafana formats any text that reads as a number: pid 670 became 670 B."""
    for panel in panels(uid, "table"):
        (organize,) = (one for one in panel["transformations"] if one["id"] == "organize")
        for name, title in organize["options"]["renameByName"].items():
            properties = properties_of(panel, title)
            if name.startswith("Value"):
                assert properties["noValue"] == "–"
                assert properties.get("unit") != "string"
            else:
                assert properties["unit"] == "string"


def properties_of(panel: dict[str, Any], title: str) -> dict[str, Any]:
    """What overrides make of a column; the last one wins."""
    found: dict[str, Any] = {}
    for override in panel["fieldConfig"]["overrides"]:
        matcher = override["matcher"]
        pattern = matcher["options"].strip("/")
        if matcher["id"] == "byRegexp" and not re.search(pattern, title):
            continue
        if matcher["id"] == "byName" and pattern != title:
            continue
        found |= {one["id"]: one["value"] for one in override["properties"]}
    return found


@pytest.mark.parametrize("uid", BOARDS)
def test_where_below_zero_is_bad_zero_is_on_the_axis(uid: str) -> None:
    for panel in panels(uid, "timeseries"):
        defaults = panel["fieldConfig"]["defaults"]
        assert defaults.get("min") == 0 or defaults["custom"]["axisSoftMin"] == 0


@each_panel
def test_a_panel_of_fullness_warns_where_the_boards_of_vllm_do(panel: dict[str, Any]) -> None:
    steps = [step["value"] for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]]
    assert steps[0] is None
    if 0.9 in steps:
        assert steps == [None, 0.9, 0.98]


def alert_links() -> list[str]:
    groups = [
        group
        for file in sorted(RULES.glob("*.yml"))
        for group in yaml.safe_load(file.read_text())["groups"]
    ]
    return sorted(
        {
            rule["annotations"]["dashboard_url"]
            for group in groups
            for rule in group["rules"]
            if "alert" in rule
        }
    )


@pytest.mark.parametrize("link", alert_links())
def test_an_alert_leads_to_a_board_and_to_choices_that_it_has(link: str) -> None:
    _, _, place = link.partition("/d/")
    uid, _, choices = place.partition("?")
    has = {variable["name"] for variable in BOARDS[uid]["templating"]["list"]}
    assert set(re.findall(r"(?:^|&)var-(\w+)=", choices)) <= has


def test_alerts_lead_to_every_board() -> None:
    assert {link.partition("/d/")[2].partition("?")[0] for link in alert_links()} == set(BOARDS)
