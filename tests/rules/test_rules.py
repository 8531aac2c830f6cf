"""The rules as files: Prometheus takes them, and nothing that an on-call needs is missing."""

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any, TypeVar

import promql_parser as promql
import pytest
import yaml

from exporter.cli import cli
from exporter.views.metrics.table import FAMILIES
from tests.dashboards.known_series import Known, known_series
from tests.programs import require_program
from tests.rules.scraped import RULES, groups_of

Node = TypeVar("Node", bound=promql.Expr)

ROOT = RULES.parents[2]
RULE_FILES = sorted(RULES.glob("*.yml"))
TEST_FILES = sorted((RULES.parent / "tests").glob("*_test.yml"))
RUNBOOKS = ROOT / "docs/runbooks"
HEADINGS = ["Meaning", "Confirm", "Causes", "What to change", "When it is harmless"]

ALL = [rule for path in RULE_FILES for group in groups_of(path) for rule in group["rules"]]
ALERTS = [rule for rule in ALL if "alert" in rule]
PROGRAM = "vllm-memory-exporter"
NAMES = sorted({rule["alert"] for rule in ALERTS})
TESTS: list[dict[str, Any]] = [
    test for path in TEST_FILES for test in yaml.safe_load(path.read_text())["tests"]
]

OF_PROMETHEUS = ("up", "process_start_time_seconds")
OF_VLLM = (
    "vllm:time_to_first_token_seconds",
    "vllm:e2e_request_latency_seconds",
    "vllm_time_to_first_token_seconds",  # as collectors spell it that allow no colon
    "vllm_e2e_request_latency_seconds",
)
KNOWN = known_series() | dict.fromkeys(
    [*OF_PROMETHEUS, *(f"{name}_{part}" for name in OF_VLLM for part in ("bucket", "count"))],
    Known(is_counter=False, labels=None),
)

each_alert = pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
each_rule = pytest.mark.parametrize(
    "rule", ALL, ids=lambda rule: rule.get("record") or rule["alert"]
)
each_name = pytest.mark.parametrize("name", NAMES)


def promtool(*arguments: str) -> str:
    """What is wrong in promtool's eyes; empty when nothing is."""
    command = [require_program("promtool"), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if result.returncode == 0 else result.stdout + result.stderr


@pytest.mark.parametrize("path", RULE_FILES, ids=lambda path: path.stem)
def test_prometheus_takes_the_rules(path: Path) -> None:
    assert promtool("check", "rules", str(path)) == ""


def test_prometheus_takes_the_example_configuration() -> None:
    assert promtool("check", "config", str(RULES.parent / "prometheus.yml")) == ""


def test_alertmanager_takes_the_example_configuration() -> None:
    example = ROOT / "deploy/alertmanager/alertmanager.yml"
    command = [require_program("amtool"), "check-config", str(example)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("path", TEST_FILES, ids=lambda path: path.stem)
def test_the_rules_do_what_their_tests_say(path: Path) -> None:
    assert promtool("test", "rules", str(path)) == ""


@each_name
def test_an_alert_is_tested_to_fire_and_to_resolve(name: str) -> None:
    tests = [test for test in TESTS if test["name"].startswith(f"{name}: fires")]
    assert tests
    for test in tests:
        outcomes = [bool(check["exp_alerts"]) for check in checks_of(test, name)]
        assert outcomes[0] is False, "before there is a reason"
        assert True in outcomes
        assert outcomes[-1] is False, "after the reason is gone"


@each_name
def test_an_alert_is_tested_to_stay_silent_at_a_near_miss(name: str) -> None:
    (test,) = (test for test in TESTS if test["name"].startswith(f"{name}: near miss"))
    outcomes = [bool(check["exp_alerts"]) for check in checks_of(test, name)]
    assert len(outcomes) >= 2
    assert not any(outcomes)


def checks_of(test: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [check for check in test["alert_rule_test"] if check["alertname"] == name]


def test_every_recorded_series_is_tested_against_values() -> None:
    tested = {
        name
        for test in TESTS
        for check in test.get("promql_expr_test", [])
        if check["exp_samples"]
        for name in names_in(check["expr"])
    }
    recorded = {
        rule["record"]
        for path in RULE_FILES
        if not path.name.startswith("alerts-")  # those serve an alert, and are tested with it
        for group in groups_of(path)
        for rule in group["rules"]
        if "record" in rule
    }
    steps = {name for name in recorded if re.fullmatch(r"slo:vllm_\w+:total", name)}
    assert recorded - tested == steps


@each_alert
def test_an_alert_says_all_that_is_needed_at_night(alert: dict[str, Any]) -> None:
    assert alert["alert"].startswith("VLLMMemory")
    assert alert["labels"]["severity"] in ("critical", "warning", "info")
    assert "keep_firing_for" in alert
    annotations = alert["annotations"]
    assert set(annotations) == {"summary", "description", "runbook_url", "dashboard_url"}
    assert "{{" not in annotations["summary"], "it is the same for all alerts of a group"
    assert annotations["summary"].endswith(".")
    (board,) = re.findall(r"/d/([\w-]+)", annotations["dashboard_url"])
    assert (ROOT / f"dashboards/{board}.json").exists()


@each_name
def test_an_alert_has_a_runbook_that_its_link_names(name: str) -> None:
    for alert in ALERTS:
        if alert["alert"] == name:
            assert alert["annotations"]["runbook_url"].endswith(f"docs/runbooks/{name}.md")
    text = (RUNBOOKS / f"{name}.md").read_text()
    assert text.startswith(f"# {name}\n")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS


def test_there_is_no_runbook_without_an_alert() -> None:
    assert sorted(path.stem for path in RUNBOOKS.glob("*.md")) == NAMES


def test_runbooks_name_alerts_panels_and_boards_that_exist() -> None:
    boards = "".join(path.read_text() for path in (ROOT / "dashboards").glob("*.json"))
    for path in RUNBOOKS.glob("*.md"):
        text = path.read_text()
        for panel in re.findall(r"panel\s+\*\*(.+?)\*\*", text):
            assert f'"title": "{panel}"' in boards, f"{path.name}: {panel}"
        for board in re.findall(r"`(vllm-memory-(?!exporter)\w+)`", text):
            assert f'"uid": "{board}"' in boards, f"{path.name}: {board}"
        assert set(re.findall(r"VLLMMemory\w+", text)) <= set(NAMES), path.name


def test_commands_in_runbooks_are_whole_and_the_program_takes_them() -> None:
    """A doctor that is not told where to look sees no engine."""
    names = "|".join((PROGRAM, *cli.commands))
    span = re.compile(rf"`((?:{names}) [^`]+)`")
    ours = [
        shlex.split(code)
        for path in RUNBOOKS.glob("*.md")
        for code in span.findall(path.read_text())
    ]
    assert len(ours) > 8
    for program, name, *flags in ours:
        assert program == PROGRAM, name
        params = cli.commands[name].make_context(name, flags).params
        assert name != "doctor" or params["url"] or params["replay"], flags


def test_queries_in_runbooks_name_series_that_exist() -> None:
    names = KNOWN.keys() | {name for f in FAMILIES for name in (f.name, *f.labels)}
    for path in RUNBOOKS.glob("*.md"):
        _, _, text = path.read_text().partition("## Confirm")
        for code in re.findall(r"`([^`]+)`", text.partition("## Causes")[0]):
            if re.match(r"(?:vllm|gpu)_|(?:up|increase)\b|\w+:", code):
                assert names_in(code) <= names, f"{path.name}: {code}"


def test_the_page_of_alerts_lists_each_with_its_severity() -> None:
    rows = re.findall(
        r"^\| \[(\w+)\]\(runbooks/(\w+)\.md\) \| (\w+) \|",
        (ROOT / "docs/alerts.md").read_text(),
        re.MULTILINE,
    )
    told = {(f"VLLMMemory{name}", runbook, severity) for name, runbook, severity in rows}
    assert told == {(a["alert"], a["alert"], a["labels"]["severity"]) for a in ALERTS}


@each_rule
def test_a_rule_names_only_series_that_exist_with_labels_that_they_have(
    rule: dict[str, Any],
) -> None:
    for selector in selectors_in(rule["expr"]):
        assert selector.name in KNOWN, f"{selector.name} is in no table"
        labels = KNOWN[selector.name].labels
        asked = {matcher.name for matcher in selector.matchers.matchers}
        assert labels is None or asked <= labels, f"{selector.name} has no {asked - labels}"


@each_rule
def test_a_rule_works_whatever_the_jobs_name_and_with_a_scrape_every_15_s(
    rule: dict[str, Any],
) -> None:
    for selector in selectors_in(rule["expr"]):
        assert "job" not in {matcher.name for matcher in selector.matchers.matchers}
    for window in nodes_in(rule["expr"], promql.MatrixSelector):
        assert window.range.total_seconds() >= 60, "four scrapes"


def names_in(expr: str) -> set[str]:
    return {selector.name for selector in selectors_in(expr) if selector.name}


def selectors_in(expr: str) -> list[promql.VectorSelector]:
    return nodes_in(expr, promql.VectorSelector)


def nodes_in(expr: str, kind: type[Node]) -> list[Node]:
    found: list[Node] = []

    def enter(node: promql.Expr) -> None:
        if isinstance(node, kind):
            found.append(node)

    promql.walk(promql.parse(expr), enter, lambda _node: None)
    return found
