"""Prometheus' rule files as the operator's PrometheusRule objects, on standard output.

`make manifests` writes them to deploy/kubernetes/components/prometheus-operator.
"""

import sys
from pathlib import Path
from typing import Any

import yaml

RULES = Path(__file__).parents[2] / "deploy/prometheus/rules"
HEADING = "# Made from deploy/prometheus/rules by `make manifests`; change the rules there.\n"


def prometheus_rules(directory: Path) -> str:
    """One object for each rule file, in order of their names."""
    objects = [_object(path) for path in sorted(directory.glob("*.yml"))]
    text = yaml.safe_dump_all(objects, sort_keys=False, allow_unicode=True, width=2**16)
    return HEADING + text


def _object(path: Path) -> dict[str, Any]:
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": f"vllm-memory-{path.stem}",
            "labels": {"app.kubernetes.io/name": "vllm-memory-exporter"},
        },
        "spec": yaml.safe_load(path.read_text(encoding="utf-8")),
    }


if __name__ == "__main__":
    sys.stdout.write(prometheus_rules(RULES))
