"""A recording as Prometheus scrapes it, written down as the input of a promtool unit test.

promtool then runs the real rule engine over it at the recording's own times, without waiting for
them. What only a live scrape has (the health of sources, the exporter's own process) is not in it.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from exporter.app import build_unpaced
from exporter.records.source import Reading
from exporter.records.view import View
from exporter.settings import Settings
from exporter.views.metrics.exposition import Exposition
from exporter.views.metrics.text_format import PLAIN
from tests.daemon import samples_of

RULES = Path(__file__).parents[2] / "deploy/prometheus/rules"
TARGET = 'instance="node1:10411",job="vllm-memory"'
FIRST_FIRING = (
    "min by (alertname) "
    '(min_over_time(timestamp(ALERTS{{alertstate="firing"}})[{seconds}s:{step_s}s]))'
)


def unit_test(
    recording: Path, scrape_interval_s: float, evaluation_interval_s: int, fired: Mapping[str, int]
) -> str:
    """The text of a promtool unit test of all rules over the recording.

    Args: fired: the alerts that fire by their names, and after how many seconds of the recording
    they do so first; no other may.
    """
    scrapes = scrapes_of(recording, scrape_interval_s)
    seconds = round(len(scrapes) * scrape_interval_s)
    expected = {
        "expr": FIRST_FIRING.format(seconds=seconds, step_s=evaluation_interval_s),
        "eval_time": f"{seconds}s",
        "exp_samples": [
            {"labels": f'{{alertname="{name}"}}', "value": at_s} for name, at_s in fired.items()
        ],
    }
    test = {
        "interval": f"{round(scrape_interval_s * 1000)}ms",
        "input_series": input_series(scrapes),
        "promql_expr_test": [expected],
    }
    # alerts last: in the order of their files one would see what was recorded a round before
    files = sorted(RULES.glob("*.yml"), key=lambda path: path.name.startswith("alerts-"))
    document = {
        "rule_files": [str(path) for path in files],
        "group_eval_order": [group["name"] for path in files for group in groups_of(path)],
        "evaluation_interval": f"{evaluation_interval_s}s",
        "tests": [test],
    }
    return yaml.safe_dump(document, width=1_000_000)


def groups_of(path: Path) -> list[dict[str, Any]]:
    """The rule groups of a file."""
    groups: list[dict[str, Any]] = yaml.safe_load(path.read_text())["groups"]
    return groups


def scrapes_of(recording: Path, interval_s: float) -> list[dict[str, float]]:
    """Samples by their series at each scrape, the first at the recording's first reading."""
    views: list[View] = []

    def keep(view: View, _readings: tuple[Reading, ...]) -> None:
        views.append(view)

    app = build_unpaced(Settings(), str(recording))
    app.pipeline.subscribe(keep)
    app.start()
    exposition = Exposition()
    scrapes = []
    due_ns = views[0].ts_unix_ns
    for view, following in pairwise([*views, None]):
        while view and (following.ts_unix_ns if following else view.ts_unix_ns + 1) > due_ns:
            samples = samples_of(exposition.render(view, PLAIN).decode())
            scrapes.append({s: v for s, v in samples.items() if not s.startswith("process_")})
            due_ns += round(interval_s * 1e9)
    return scrapes


def input_series(scrapes: Sequence[Mapping[str, float]]) -> list[dict[str, Any]]:
    """promtool's input: a value for each scrape, and the end of a series as Prometheus marks it."""
    names = dict.fromkeys(name for samples in scrapes for name in samples)
    rows = [{"series": f"up{{{TARGET}}}", "values": f"1x{len(scrapes) - 1}"}]
    for name in names:
        metric, _, labels = name.partition("{")
        own = f",{labels[:-1]}" if labels else ""
        values = [samples.get(name) for samples in scrapes]
        tokens = [_token(value, before) for before, value in pairwise([None, *values])]
        rows.append({"series": f"{metric}{{{TARGET}{own}}}", "values": " ".join(tokens)})
    return rows


def _token(value: float | None, before: float | None) -> str:
    if value is not None:
        return repr(value)
    return "_" if before is None else "stale"
