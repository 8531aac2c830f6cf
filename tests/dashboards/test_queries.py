"""Every query of the boards: it parses, names only series that exist, and treats each as it is."""

import re
from dataclasses import dataclass, field

import promql_parser as promql
import pytest

from tests.dashboards.boards import ANYTHING, Query, all_queries
from tests.dashboards.known_series import known_series, recorded_names

KNOWN = known_series()
RECORDED = frozenset(recorded_names())
OF_COUNTERS = {"rate", "increase"}
SHOWN_AS_THEY_STAND = {"gpu_xid_errors_total"}
"""Counters that are absent until the first event, which an increase would not see."""
LEAST_WINDOW_S = 60  # four scrapes of 15 s
OF_GRAFANA = {"$__rate_interval", "$__range"}

NAMES = {name: f"chosen {name}" for name in ANYTHING} | {
    name: ANYTHING[name] for name in ("__rate_interval", "__range")
}

each_query = pytest.mark.parametrize("query", all_queries(), ids=lambda query: query.id)


@dataclass
class Reading:
    """What stands in a query: series with the function over their window, and groupings."""

    selectors: list[tuple[promql.VectorSelector, str]] = field(default_factory=list)
    groupings: list[tuple[promql.AggregateExpr, frozenset[str]]] = field(default_factory=list)


def read(expr: str) -> Reading:
    reading = Reading()
    functions: list[str] = [""]
    window = [""]

    def enter(node: promql.Expr) -> None:
        if isinstance(node, promql.Call):
            functions.append(node.func.name)
        elif isinstance(node, promql.MatrixSelector):
            window[0] = functions[-1]
        elif isinstance(node, promql.VectorSelector):
            reading.selectors.append((node, window[0]))
            window[0] = ""
        elif isinstance(node, promql.AggregateExpr) and node.modifier:
            reading.groupings.append((node, frozenset(node.modifier.labels)))

    def leave(node: promql.Expr) -> None:
        if isinstance(node, promql.Call):
            functions.pop()

    promql.walk(promql.parse(expr), enter, leave)
    return reading


def names_of(selector: promql.VectorSelector) -> list[str]:
    """The names that a selector stands for."""
    if selector.name:
        return [selector.name]
    (pattern,) = (m.value for m in selector.matchers.matchers if m.name == "__name__")
    names = [name for name in KNOWN if re.fullmatch(pattern, name)]
    assert names, f"{pattern} is no name that exists"
    return names


@each_query
def test_it_names_only_series_that_exist_with_labels_that_they_have(query: Query) -> None:
    for selector, _function in read(query.with_values()).selectors:
        for name in names_of(selector):
            assert name in KNOWN, f"{name} is in no table"
            labels = KNOWN[name].labels
            asked = {matcher.name for matcher in selector.matchers.matchers} - {"__name__"}
            assert labels is None or asked <= labels, f"{name} has no {asked - labels}"


@each_query
def test_it_groups_by_labels_that_the_series_have(query: Query) -> None:
    for grouping, by in read(query.with_values()).groupings:
        had: set[str] = set()
        for selector, _function in read(str(grouping.expr.prettify())).selectors:
            for name in names_of(selector):
                had |= KNOWN[name].labels or by
        assert by <= had, f"none of the series has {by - had}"


@each_query
def test_a_counter_stands_inside_rate_or_increase_and_a_gauge_never(query: Query) -> None:
    for selector, function in read(query.with_values()).selectors:
        for name in names_of(selector):
            if name not in RECORDED | SHOWN_AS_THEY_STAND:
                assert (function in OF_COUNTERS) == KNOWN[name].is_counter, f"{function}({name})"


@each_query
def test_it_asks_only_what_is_chosen_above(query: Query) -> None:
    """Job and instance everywhere; levels above an instance have no instance to choose."""
    if query.place.startswith("variable "):
        return
    for selector, _function in read(query.with_values(NAMES)).selectors:
        (name,) = names_of(selector)
        chosen = {matcher.name: matcher.value for matcher in selector.matchers.matchers}
        prefix = "vllm_" if name.startswith("vllm:") or "_slo_" in name else ""
        is_wide = name.startswith(("job", "ALERTS"))
        for label in ("job",) if is_wide else ("job", "instance"):
            assert chosen.get(label) == f"chosen {prefix}{label}", f"{name} of every {label}"


@each_query
def test_its_window_holds_four_scrapes(query: Query) -> None:
    """Grafana's own window does; a fixed one is long enough for a scrape every 15 s."""
    for window in re.findall(r"\[([^\]]+)\]", query.expr):
        if window not in OF_GRAFANA:
            assert promql.parse_duration(window).total_seconds() >= LEAST_WINDOW_S


@each_query
def test_the_fleet_board_asks_only_what_is_recorded(query: Query) -> None:
    if query.place.startswith("variable "):
        return  # the values of a label are no query over its series
    names = {name for s, _ in read(query.with_values()).selectors for name in names_of(s)}
    if query.board == "vllm-memory-fleet":
        assert names <= RECORDED
    else:
        needs_rules = (name == "ALERTS" or "_slo_" in name for name in names & RECORDED)
        assert all(needs_rules)  # and all else works without
