"""Panels with a time axis: lines, stacked areas, heatmaps."""

from collections.abc import Sequence

from dashboards.absence import Absence
from dashboards.panels import PLAIN, Steps, panel
from dashboards.queries import Json

BRIDGED_GAP_MS = 45_000  # one lost scrape at 15 s leaves 30 s between two points


def timeseries(
    title: str,
    description: str,
    *targets: Json,
    unit: str,
    no_value: Absence,
    width: int = 12,
    height: int = 8,
    is_stacked: bool = False,
    is_stepped: bool = False,
    steps: Steps = PLAIN,
    extent: tuple[float | None, float | None] = (0, None),
    overrides: Sequence[Json] = (),
    **more: object,
) -> Json:
    """Lines over time, or areas that sum to a whole; thresholds are dashed lines."""
    return panel(
        "timeseries",
        title,
        description,
        targets,
        unit=unit,
        no_value=no_value.sentence,
        width=width,
        height=height,
        steps=steps,
        extent=extent,
        overrides=overrides,
        custom={
            **({"axisSoftMin": 0} if extent[0] is None else {}),  # where 0 is, it is seen
            "drawStyle": "line",
            "fillOpacity": 70 if is_stacked else 8,
            "lineInterpolation": "stepAfter" if is_stepped else "linear",
            "lineWidth": 0 if is_stacked else 1,
            "showPoints": "never",
            "spanNulls": BRIDGED_GAP_MS,
            "stacking": {"group": "A", "mode": "normal" if is_stacked else "none"},
            "thresholdsStyle": {"mode": "off" if steps == PLAIN else "dashed"},
        },
        options={
            "legend": {
                "calcs": ["lastNotNull", "max"],
                "displayMode": "table",
                "placement": "right" if is_stacked else "bottom",  # a stack has many parts
                "showLegend": True,
            },
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        **more,
    )


def heatmap(
    title: str,
    description: str,
    query: Json,
    *,
    no_value: Absence,
    width: int = 12,
    height: int = 8,
    is_histogram: bool = False,
    axis: str = "GPU",
    unit: str = "percentunit",
) -> Json:
    """Rows over time: one a series, coloured from 0 to 1, or one a bucket, coloured by count.

    Of a ratio a cell of 0 is a figure and is painted; of a histogram it is nothing and is not. The
    fixed range keeps a colour's meaning while data change.
    """
    colour: Json = {"exponent": 0.5, "fill": "dark-orange", "mode": "scheme", "reverse": False}
    if is_histogram:
        colour |= {"scale": "exponential", "scheme": "Blues", "steps": 64}
    else:
        colour |= {"scale": "linear", "scheme": "Viridis", "steps": 64, "min": 0, "max": 1}
    return panel(
        "heatmap",
        title,
        description,
        [query],
        unit=unit,
        no_value=no_value.sentence,
        width=width,
        height=height,
        custom={"scaleDistribution": {"type": "linear"}},
        maxDataPoints=400,
        options={
            "calculate": False,
            "cellGap": 0,  # 400 cells in 600 pixels
            "cellValues": {"unit": "short"}
            if is_histogram
            else {"decimals": 0, "unit": "percentunit"},
            "color": colour,
            "exemplars": {"color": "rgba(255,0,255,0.7)"},
            "filterValues": {"le": 1e-9 if is_histogram else -1},
            "legend": {"show": True},
            "rowsFrame": {"layout": "auto", "value": "samples" if is_histogram else "pressure"},
            "selectionMode": "x",
            "showValue": "never",
            "tooltip": {"mode": "single", "showColorScale": True, "yHistogram": False},
            "yAxis": {
                "axisLabel": axis,
                "axisPlacement": "left",
                "reverse": not is_histogram,
                **({"unit": unit} if is_histogram else {}),
            },
        },
    )
