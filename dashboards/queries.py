"""What panels ask Prometheus: which series, over which window, under which name.

Knows PromQL and our labels, and nothing of how a panel looks.
"""

from typing import Any, Literal

Json = dict[str, Any]
Over = Literal["max", "min", "last", "avg"]

DATASOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}
WINDOW = "$__rate_interval"  # at least four scrapes and at least one step: no sample is passed over

EXPORTER = 'job=~"$job",instance=~"$instance"'
GPU = f'{EXPORTER},device=~"$device"'
ENGINE = f'{EXPORTER},model_name=~"$model_name",engine=~"$engine"'
WORKER = f'{ENGINE},device=~"$device"'
VLLM_SERVER = (
    'job=~"$vllm_job",instance=~"$vllm_instance",model_name=~"$model_name",engine=~"$engine"'
)
FLEET = 'job=~"$job"'
FLEET_MODEL = f'{FLEET},model_name=~"$model_name"'
OBJECTIVE = 'job=~"$vllm_job",model_name=~"$model_name"'

BY_GPU = "instance, device"
BY_ENGINE = "instance, replica, model_name, engine"
BY_WORKER = f"{BY_ENGINE}, rank, device"
BY_SERVER = "instance, model_name, engine"

GPU_LEGEND = "{{instance}} {{device}}"
ENGINE_LEGEND = "{{instance}} {{replica}}/{{engine}}"
WORKER_LEGEND = ENGINE_LEGEND + " rank {{rank}} {{device}}"
SERVER_LEGEND = "{{instance}} {{model_name}}/{{engine}}"


def gauge(name: str, where: str, by: str, over: Over = "max") -> str:
    """A gauge's figure of each window, so that neither a peak nor one lost scrape is seen as a gap.

    `over`: the figure that matters: max of what must not rise, min of what must not fall, last of
    what is read as it stands. Among series that differ only in labels outside `by` the same counts.
    """
    across = "max" if over in ("last", "avg") else over
    return f"{across} by ({by}) ({over}_over_time({name}{{{where}}}[{WINDOW}]))"


def present(name: str, where: str, by: str) -> str:
    """A gauge at each moment, without a window: for parts that have to sum to their whole."""
    return f"sum by ({by}) ({name}{{{where}}})"


def rate(name: str, where: str, by: str) -> str:
    """A counter's increase per second."""
    return f"sum by ({by}) (rate({name}{{{where}}}[{WINDOW}]))"


def increase(name: str, where: str, by: str, window: str = WINDOW) -> str:
    """A counter's increase in each window."""
    return f"sum by ({by}) (increase({name}{{{where}}}[{window}]))"


def quantile(q: float, bucket: str, where: str, by: str) -> str:
    """A quantile of a histogram's observations in each window."""
    return f"histogram_quantile({q}, {rate(bucket, where, f'{by}, le')})"


def either(new: str, old: str, by: str) -> str:
    """The newer of two names of the same figure: the older only where the newer is not told."""
    return f"({new}) or on ({by}) ({old})"


def gpu_rows(expr: str) -> str:
    """The query with a label `gpu` that is the device's number: a heatmap sorts its rows by it."""
    return f'label_replace({expr}, "gpu", "$1", "device", "cuda:(.+)")'


def target(expr: str, legend: str = "", *, is_instant: bool = False, form: str = "") -> Json:
    """One query of a panel; the panel gives it its letter.

    `form`: "table", or "heatmap" for buckets of a histogram (neighbouring series are subtracted
    there); else a time series.
    """
    return {
        "datasource": DATASOURCE,
        "editorMode": "code",
        "expr": expr,
        "format": form or "time_series",
        "instant": is_instant,
        "legendFormat": legend or "__auto",
        "range": not is_instant,
    }


def recorded(name: str, where: str, by: str = "", more: str = "") -> str:
    """A recorded series: already aggregated, so asked as it stands.

    `by`: drops the labels that Prometheus adds to a target (pod, namespace, …).
    """
    selector = f"{name}{{{where}{more and ','}{more}}}"
    return f"max by ({by}) ({selector})" if by else selector
