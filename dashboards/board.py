"""A board's frame: variables, links, annotations, and where its panels stand."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dashboards.queries import DATASOURCE, EXPORTER, GPU, Json

GRID_WIDTH = 24
OLDEST_SCHEMA = 39  # Grafana 10.4; newer ones migrate upward


def mark(name: str, color: str, expr: str, title: str, content: str) -> Json:
    """Marks over all panels, wherever the query has a figure."""
    return {
        "name": name,
        "datasource": DATASOURCE,
        "enable": True,
        "iconColor": color,
        "expr": expr,
        "step": "5s",
        "titleFormat": title,
        "textFormat": content,
    }


def alerts(where: str) -> Json:
    """Our alerts, for as long as they fire."""
    ours = f'ALERTS{{alertname=~"VLLMMemory.+",alertstate="firing",{where}}}'
    return mark(
        "Alerts",
        "orange",
        f"max by (alertname, severity, instance) ({ours})",
        "{{alertname}} ({{severity}})",
        "{{instance}}",
    )


MARKS: Sequence[Json] = (
    alerts(EXPORTER),
    mark(
        "Conflicts",
        "red",
        f"sum by (instance, device, kind) (increase(gpu_memory_conflicts_total{{{GPU}}}[1m])) > 0",
        "Conflict over memory: {{kind}}",
        "{{device}} of {{instance}}",
    ),
    mark(
        "Engine restarts",
        "purple",
        "sum by (instance, replica, engine)"
        f" (increase(vllm_engine_restarts_total{{{EXPORTER}}}[1m])) > 0",
        "Engine restarted",
        "{{replica}}/{{engine}} of {{instance}}",
    ),
)
"""One minute at a time: Grafana asks for no more than that."""
ALERTS_OF_GRAFANA: Json = {
    "name": "Annotations & Alerts",
    "builtIn": 1,
    "type": "dashboard",
    "datasource": {"type": "grafana", "uid": "-- Grafana --"},
    "enable": True,
    "hide": True,
    "iconColor": "rgba(0, 211, 255, 1)",
}


@dataclass(frozen=True, slots=True)
class Board:
    """One board; its uid is what alerts and bookmarks link to, and never changes."""

    uid: str
    title: str
    description: str
    panels: Sequence[Json]
    refresh: str = "5s"
    marks: Sequence[Json] = MARKS  # annotations
    vllm_choices: Sequence[str] = ()  # labels by which vLLM's own metrics are chosen

    def json(self) -> Json:
        """The board as Grafana imports and provisions it."""
        return {
            "id": None,
            "uid": self.uid,
            "title": self.title,
            "description": self.description,
            "tags": ["gpu", "vllm"],
            "schemaVersion": OLDEST_SCHEMA,
            "version": 1,
            "editable": True,
            "graphTooltip": 1,
            "refresh": self.refresh,
            "time": {"from": "now-15m", "to": "now"},
            "timepicker": {"refresh_intervals": ["1s", "5s", "10s", "30s", "1m", "5m"]},
            "timezone": "browser",
            "templating": {"list": variables(self.vllm_choices)},
            "annotations": {"list": [ALERTS_OF_GRAFANA, *self.marks]},
            "links": [
                _links("GPU memory", ["gpu", "vllm"], is_dropdown=False),
                _links("All vLLM boards", ["vllm"], is_dropdown=True),
            ],
            "panels": list(placed(self.panels)),
        }


def placed(panels: Iterable[Json]) -> Iterable[Json]:
    """Panels numbered and set from left to right; a new line for a row or a lack of room."""
    x = y = line_height = 0
    for number, panel in enumerate(panels, start=1):
        is_row = panel["type"] == "row"
        size = {"w": GRID_WIDTH, "h": 1} if is_row else panel["gridPos"]
        if is_row or x + size["w"] > GRID_WIDTH:
            x, y, line_height = 0, y + line_height, 0
        yield {"id": number, **panel, "gridPos": {"x": x, "y": y, **size}}
        x += size["w"]
        line_height = max(line_height, size["h"])


def variables(vllm_choices: Sequence[str]) -> list[Json]:
    """The drop-downs: those of the exporter, then those of vLLM's own metrics where they are asked.

    vLLM is another target with another job and instance, so it is chosen apart.
    """
    engines = f'vllm_engine_up{{{EXPORTER},model_name=~"$model_name"}}'
    chosen: list[Json] = [
        {
            "type": "datasource",
            "name": "datasource",
            "label": "Data source",
            "query": "prometheus",
            "refresh": 1,
            "hide": 0,
            "multi": False,
            "includeAll": False,
            "options": [],
            "regex": "",
        },
        _choice("job", "Job", "vllm_memory_exporter_build_info"),
        _choice("instance", "Instance", 'vllm_memory_exporter_build_info{job=~"$job"}'),
        _choice("device", "GPU", f"gpu_up{{{EXPORTER}}}", may_be_absent=True, is_numbered=True),
        _choice("model_name", "Model", f"vllm_engine_up{{{EXPORTER}}}", may_be_absent=True),
        _choice("engine", "Engine", engines, may_be_absent=True, is_numbered=True),
    ]
    before = ""
    for label in vllm_choices:
        usage = f'{{__name__=~"vllm:(kv|gpu)_cache_usage_perc"{before}}}'
        chosen.append(_choice(f"vllm_{label}", f"vLLM {label}", usage, label=label))
        before += f',{label}=~"$vllm_{label}"'
    return chosen


def _choice(
    name: str,
    title: str,
    series: str,
    *,
    label: str = "",
    may_be_absent: bool = False,
    is_numbered: bool = False,
) -> Json:
    """A choice among a label's values; "All" also takes series that lack a label that may be so."""
    query = f"label_values({series}, {label or name})"
    return {
        "type": "query",
        "name": name,
        "label": title,
        "datasource": DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": f"variable-{name}"},
        "refresh": 2,
        "hide": 0,
        "multi": True,
        "includeAll": True,
        "allValue": ".*" if may_be_absent else ".+",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "options": [],
        "regex": "",
        "sort": 3 if is_numbered else 1,
    }


def _links(title: str, tags: Sequence[str], *, is_dropdown: bool) -> Json:
    return {
        "type": "dashboards",
        "title": title,
        "tags": list(tags),
        "asDropdown": is_dropdown,
        "icon": "external link",
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
        "tooltip": "",
        "url": "",
    }
