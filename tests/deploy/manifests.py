"""What the manifests come to: overlays, the chart with values, snippets; and their pods."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from helm_python import Chart

from tests.deploy.conftest import ROOT
from tests.deploy.tools import tool

KUBERNETES = ROOT / "deploy/kubernetes"
CHART = ROOT / "deploy/helm/vllm-memory-exporter"
OVERLAYS = tuple(sorted(path.name for path in (KUBERNETES / "overlays").iterdir()))
SNIPPETS = tuple(sorted(path.name for path in (KUBERNETES / "snippets").glob("*.yaml")))

VALUES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "registry": {
        "image": {"repository": "registry.example/exporter", "tag": "2", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "pull"}],
    },
    "default runtime": {"runtimeClassName": "", "nodeSelector": {"pool": "gpu"}},
    "whole node": {
        "hostPID": True,
        "trace": {"hostPath": "/var/run/vllm-trace"},
        "podNames": {"enabled": True},
    },
    "config": {
        "config": {"nvml": {"interval": "100ms"}, "conflicts": {"expected_processes": ["dcgm"]}},
        "extraArgs": ["--log.format=json"],
    },
    "operator": {
        "podMonitor": {
            "enabled": True,
            "interval": "500ms",
            "scrapeTimeout": "500ms",
            "labels": {"release": "kube-prometheus-stack"},
        }
    },
    "placement": {
        "priorityClassName": "system-node-critical",
        "podAnnotations": {"a": "b"},
        "podLabels": {"team": "serving"},
        "maxUnavailable": 1,
        "tolerations": [],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {}},
        "affinity": {"nodeAffinity": {}},
    },
}
"""Values that a test of the chart is repeated for, by what they are about."""

Document = dict[str, Any]


@dataclass(frozen=True)
class Pod:
    """A pod template: where it was found, its labels and its spec."""

    origin: str
    labels: dict[str, str]
    spec: Document

    def containers(self) -> list[Document]:
        """All of them, native sidecars included."""
        return [*self.spec.get("initContainers", []), *self.spec["containers"]]

    def exporter(self) -> Document:
        """Our container."""
        (container,) = (c for c in self.containers() if c["name"] == "memory-exporter")
        return container

    def is_sidecar(self) -> bool:
        """Whether the exporter shares the pod with an engine."""
        return len(self.containers()) > 1


@cache
def overlay(name: str) -> list[Document]:
    """The documents of an overlay."""
    return kustomized(KUBERNETES / "overlays" / name)


def kustomized(directory: Path) -> list[Document]:
    """The documents that kustomize makes of a directory."""
    command = [tool("kustomize"), "build", str(directory)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    return list(yaml.safe_load_all(result.stdout))


def chart(values: Document, release: str = "vme") -> list[Document]:
    """The documents of the chart with these values."""
    with Chart.load(CHART) as loaded:
        rendered = loaded.render(values, name=release, namespace="monitoring")
    texts = (text for path, text in rendered.items() if path.endswith(".yaml"))
    return [document for text in texts for document in yaml.safe_load_all(text) if document]


def snippet(name: str) -> list[Document]:
    """The documents of a snippet."""
    return list(yaml.safe_load_all((KUBERNETES / "snippets" / name).read_text()))


def everything() -> Iterator[tuple[str, Document]]:
    """All documents, each with where it is from."""
    for name in OVERLAYS:
        for document in overlay(name):
            yield f"overlay {name}", document
    for name, values in VALUES.items():
        for document in chart(values):
            yield f"chart: {name}", document
    for name in SNIPPETS:
        for document in snippet(name):
            yield f"snippet {name}", document


def pods() -> list[Pod]:
    """All pod templates with an exporter in them."""
    found = [pod for origin, document in everything() for pod in _pods_in(origin, document, {})]
    return [pod for pod in found if any(c["name"] == "memory-exporter" for c in pod.containers())]


def _pods_in(origin: str, node: object, labels: dict[str, str]) -> Iterator[Pod]:
    if isinstance(node, list):
        for item in node:
            yield from _pods_in(origin, item, labels)
    elif isinstance(node, dict):
        labels = node.get("metadata", {}).get("labels", labels)
        if "containers" in node:
            yield Pod(origin, labels, node)
        else:
            for value in node.values():
                yield from _pods_in(origin, value, labels)
