"""Panels of figures at one moment: numbers, bars, tables."""

import re
from collections.abc import Mapping, Sequence

from dashboards.absence import Absence
from dashboards.panels import PLAIN, Steps, named, panel
from dashboards.queries import Json


def stat(
    title: str,
    description: str,
    query: Json,
    *,
    unit: str,
    no_value: Absence,
    width: int = 4,
    height: int = 4,
    steps: Steps = PLAIN,
    is_traced: bool = True,
) -> Json:
    """One number, with its course behind it where `is_traced`.

    It has room for few words when it is absent; the description has the rest.
    """
    return panel(
        "stat",
        title,
        f"{description} {no_value.sentence}",
        [query],
        unit=unit,
        no_value=no_value.words,
        width=width,
        height=height,
        steps=steps,
        options={
            "colorMode": "value",
            "graphMode": "area" if is_traced else "none",
            "justifyMode": "auto",
            "orientation": "auto",
            "percentChangeColorMode": "standard",
            "reduceOptions": _last_value(),
            "showPercentChange": False,
            "textMode": "auto",
            "wideLayout": True,
        },
    )


def bargauge(
    title: str,
    description: str,
    query: Json,
    *,
    unit: str,
    no_value: Absence,
    width: int = 12,
    height: int = 8,
    steps: Steps = PLAIN,
    extent: tuple[float | None, float | None] = (0, None),
    overrides: Sequence[Json] = (),
) -> Json:
    """One horizontal bar a series."""
    return panel(
        "bargauge",
        title,
        description,
        [query],
        unit=unit,
        no_value=no_value.sentence,
        width=width,
        height=height,
        steps=steps,
        extent=extent,
        overrides=overrides,
        options={
            "displayMode": "basic",
            "legend": {
                "calcs": [],
                "displayMode": "list",
                "placement": "bottom",
                "showLegend": False,
            },
            "maxVizHeight": 300,
            "minVizHeight": 12,
            "minVizWidth": 8,
            "namePlacement": "auto",
            "orientation": "horizontal",
            "reduceOptions": _last_value(),
            "showUnfilled": True,
            "sizing": "auto",
            "valueMode": "color",
        },
    )


def table(
    title: str,
    description: str,
    *targets: Json,
    unit: str,
    no_value: Absence,
    columns: Mapping[str, str],
    sort_by: str,
    width: int = 24,
    height: int = 8,
    steps: Steps = PLAIN,
    overrides: Sequence[Json] = (),
) -> Json:
    """One line for each set of labels; `columns` orders and names them, others are left out.

    The figure of query A is the column ``Value #A``, or ``Value`` where there is one query. Labels
    are no figures: a pid has no unit. A figure that one line lacks is a dash there.
    """
    labels = [title for name, title in columns.items() if not name.startswith("Value")]
    figures = [title for title in columns.values() if title not in labels]
    return panel(
        "table",
        title,
        description,
        targets,
        unit=unit,
        no_value=no_value.sentence,
        width=width,
        height=height,
        steps=steps,
        overrides=[
            named(_any_of(labels), is_pattern=True, unit="string"),
            named(_any_of(figures), is_pattern=True, noValue="–"),
            *overrides,
        ],
        custom={"align": "auto", "filterable": True, "minWidth": 90},
        options={
            "cellHeight": "sm",
            "frameIndex": 0,
            "showHeader": True,
            "sortBy": [{"desc": True, "displayName": sort_by}],
        },
        transformations=[
            {"id": "filterFieldsByName", "options": {"include": {"names": list(columns)}}},
            {"id": "merge", "options": {}},
            {
                "id": "organize",
                "options": {
                    "excludeByName": {},
                    "indexByName": {name: index for index, name in enumerate(columns)},
                    "renameByName": dict(columns),
                },
            },
        ],
    )


def _any_of(titles: Sequence[str]) -> str:
    """A pattern as Grafana writes it, for any of these columns."""
    return f"/^({'|'.join(map(re.escape, titles))})$/"


def _last_value() -> Json:
    return {"calcs": ["lastNotNull"], "fields": "", "values": False}
