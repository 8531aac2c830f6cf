"""What Grafana would ask for a board, and Prometheus' answers, as one value for the page.

Knows variables, repeats, steps and annotations as Grafana treats them, and nothing of looks.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dashboards.board import GRID_WIDTH, placed
from tests.dashboards.boards import ANYTHING, BOARDS
from tests.tools.board_previews.nodes import Played

Json = dict[str, Any]
STEP_S = 1  # the data source's scrape interval; as in docs/dashboards.md
NIGHT_S = 1_767_236_400  # 3:00:00 of a night: when the recordings begin in the pictures
_VARIABLE = re.compile(r"\$(\w+)")


def board(
    uid: str, played: Played, chosen: Mapping[str, Sequence[str]], opened: Sequence[str]
) -> Json:
    """The board with its answers.

    Args:
        chosen: the values of variables of which not "All" is chosen, or by which panels repeat.
        opened: rows that are shown with their panels; the others are folded, as a reader can.
    """
    source = BOARDS[uid]
    panels, owns = zip(*_shown(source["panels"], chosen, opened), strict=True)
    annotations = [one for one in source["annotations"]["list"] if "expr" in one]
    values = {
        **ANYTHING,
        "__range": f"{played.seconds}s",
        **{name: _either(those) for name, those in chosen.items()},
    }
    return {
        "title": source["title"],
        "from_ms": NIGHT_S * 1000,
        "to_ms": (NIGHT_S + played.seconds) * 1000,
        "panels": [
            {
                "panel": {**panel, "title": _filled(panel["title"], own)},
                "answers": list(_answers(panel, played, {**values, **_chosen(own)})),
            }
            for panel, own in zip(placed(panels), owns, strict=True)
        ],
        "annotations": [{"name": one["name"], "color": one["iconColor"]} for one in annotations],
        "marks": [
            mark for annotation in annotations for mark in _marks(annotation, played, values)
        ],
        "choices": {name: " + ".join(those) for name, those in chosen.items()},
    }


def part(board: Json, sizes: Mapping[str, tuple[int, int]]) -> Json:
    """Some panels of an answered board, by their titles, each as wide and high as said."""
    by_title = {one["panel"]["title"]: one for one in board["panels"]}
    panels = [
        {**by_title[title]["panel"], "gridPos": {"w": width, "h": height}}
        for title, (width, height) in sizes.items()
    ]
    shown = [{**by_title[panel["title"]], "panel": panel} for panel in placed(panels)]
    return {**board, "panels": shown}


def _shown(
    panels: Sequence[Json], chosen: Mapping[str, Sequence[str]], opened: Sequence[str]
) -> Iterator[tuple[Json, Mapping[str, str]]]:
    """Panels from top to bottom, once for each value where they repeat; folded rows without theirs.

    Beside each the variables that are its own.
    """
    for row, *inside in _sections(panels):
        is_open = row["title"] in opened
        for own in _repeats(row, chosen):
            yield row if is_open else {**row, "folded": len(inside)}, own
            for panel in inside if is_open else ():
                repeats = _repeats(panel, chosen)
                size = {name: panel["gridPos"][name] for name in ("w", "h")}
                if "repeat" in panel:
                    size["w"] = GRID_WIDTH // min(len(repeats), panel["maxPerRow"])
                for mine in repeats:
                    yield {**panel, "gridPos": size}, {**own, **mine}


def _repeats(panel: Json, chosen: Mapping[str, Sequence[str]]) -> Sequence[Mapping[str, str]]:
    if "repeat" not in panel:
        return [{}]
    return [{panel["repeat"]: value} for value in chosen[panel["repeat"]]]


def _sections(panels: Sequence[Json]) -> Iterator[list[Json]]:
    section: list[Json] = []
    for panel in panels:
        if panel["type"] == "row" and section:
            yield section
            section = []
        section.append(panel)
    yield section


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda match: values.get(match[1], match[0]), text)


def _chosen(own: Mapping[str, str]) -> dict[str, str]:
    return {name: _either([value]) for name, value in own.items()}


def _either(values: Sequence[str]) -> str:
    """A regular expression for any of them, as it stands between quotes in PromQL."""
    return "|".join(map(re.escape, values)).replace("\\", "\\\\")


def _answers(panel: Json, played: Played, values: Mapping[str, str]) -> Iterator[Json]:
    for target in panel.get("targets", ()):
        expr = _filled(target["expr"], values)
        yield {
            "refId": target["refId"],
            "format": target["format"],
            "legend": target["legendFormat"],
            "series": _now(expr, played) if target["instant"] else _course(expr, played, STEP_S),
        }


def _now(expr: str, played: Played) -> list[Json]:
    end_s = played.start_s + played.seconds
    answer = played.prometheus.ask("query", query=expr, time=str(end_s))
    return [{"metric": one["metric"], "values": [one["value"]]} for one in answer]


def _course(expr: str, played: Played, step_s: int) -> list[Json]:
    """A point each step, at the times of the night."""
    start_s, end_s = int(played.start_s), int(played.start_s) + played.seconds
    answer = played.prometheus.ask(
        "query_range", query=expr, start=str(start_s), end=str(end_s), step=str(step_s)
    )
    return [
        {**one, "values": [[at - start_s + NIGHT_S, value] for at, value in one["values"]]}
        for one in answer
    ]


def _marks(annotation: Json, played: Played, values: Mapping[str, str]) -> Iterator[Json]:
    """A mark for each unbroken time in which the query has a figure."""
    step_s = int(annotation["step"].removesuffix("s"))
    for series in _course(_filled(annotation["expr"], values), played, step_s):
        for begin_s, end_s in _unbroken([at for at, _value in series["values"]], step_s):
            yield {
                "color": annotation["iconColor"],
                "from_ms": round(begin_s * 1000),
                "to_ms": round(end_s * 1000),
            }


def _unbroken(times_s: Sequence[float], step_s: int) -> list[tuple[float, float]]:
    spans: list[tuple[float, float]] = []
    for at_s in times_s:
        if spans and at_s - spans[-1][1] <= step_s:
            spans[-1] = spans[-1][0], at_s
        else:
            spans.append((at_s, at_s))
    return spans
