"""What every panel has in common, and what stands between them: rows and notes."""

from collections.abc import Sequence
from string import ascii_uppercase

from dashboards.queries import DATASOURCE, Json

BLUE, GREEN, ORANGE, RED, GREY = "blue", "green", "orange", "red", "#8e8e8e"
Steps = Sequence[tuple[float | None, str]]
PLAIN: Steps = ((None, BLUE),)
FULLNESS: Steps = ((None, GREEN), (0.9, ORANGE), (0.98, RED))
"""As on vLLM's own boards."""
NEARLY_ALL_TAKEN: Steps = ((None, GREEN), (0.98, ORANGE))
"""Device memory of an engine stands at gpu_memory_utilization for ever: 0.9 says nothing there."""
ANY_IS_BAD: Steps = ((None, GREEN), (1, RED))
BELOW_ZERO_IS_BAD: Steps = ((None, RED), (0, GREEN))


def panel(
    kind: str,
    title: str,
    description: str,
    targets: Sequence[Json],
    *,
    unit: str,
    no_value: str,
    width: int,
    height: int,
    options: Json,
    custom: Json | None = None,
    steps: Steps = PLAIN,
    extent: tuple[float | None, float | None] = (None, None),
    overrides: Sequence[Json] = (),
    **more: object,
) -> Json:
    """A panel of any kind; `extent` is the range of its axis, None where the data decide."""
    least, most = extent
    return {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "gridPos": {"w": width, "h": height},
        "fieldConfig": {
            "defaults": {
                "unit": unit,
                "noValue": no_value,
                "color": {"mode": "thresholds" if kind != "timeseries" else "palette-classic"},
                "thresholds": {
                    "mode": "absolute",
                    "steps": [{"color": color, "value": value} for value, color in steps],
                },
                **({} if least is None else {"min": least}),
                **({} if most is None else {"max": most}),
                **({} if custom is None else {"custom": custom}),
            },
            "overrides": list(overrides),
        },
        "options": options,
        "targets": [
            {**query, "refId": letter}
            for query, letter in zip(targets, ascii_uppercase, strict=False)
        ],
        **more,
    }


def text(content: str, *, title: str = "", width: int = 24, height: int = 4) -> Json:
    """A note in Markdown."""
    return {
        "type": "text",
        "title": title,
        "description": "",
        "gridPos": {"w": width, "h": height},
        "options": {"content": content, "mode": "markdown"},
    }


def row(title: str, *, repeat: str = "") -> Json:
    """A heading over the panels that follow; with `repeat` once for each value of a variable."""
    return {
        "type": "row",
        "title": title,
        "collapsed": False,
        "panels": [],
        **({"repeat": repeat} if repeat else {}),
    }


def named(name: str, *, is_pattern: bool = False, **properties: object) -> Json:
    """An override for the field of that name; keys with a dot are written with two underscores."""
    return {
        "matcher": {"id": "byRegexp" if is_pattern else "byName", "options": name},
        "properties": [
            {"id": key.replace("__", "."), "value": value} for key, value in properties.items()
        ],
    }


def fixed(color: str) -> Json:
    """A colour that does not depend on the value."""
    return {"mode": "fixed", "fixedColor": color}
