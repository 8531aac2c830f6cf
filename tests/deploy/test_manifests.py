"""Manifests against Kubernetes' schemas, the operator's models and the files they are made from."""

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from cloudcoil.models.prometheus_operator import v1 as operator

from exporter.settings import Settings
from tests.deploy.conftest import ROOT
from tests.deploy.manifests import (
    KUBERNETES,
    OVERLAYS,
    SNIPPETS,
    VALUES,
    Document,
    chart,
    everything,
    kustomized,
    overlay,
    pods,
    snippet,
)
from tests.tools.make_prometheus_rules import RULES, prometheus_rules

VERSIONS = ("1.29", kubernetes_validate.latest_version())
DASHBOARDS = sorted(path.stem for path in (ROOT / "dashboards").glob("*.json"))


def is_custom(document: Document) -> bool:
    """Whether its kind is none of Kubernetes' own, or it is no object at all."""
    return "." in document.get("apiVersion", ".").partition("/")[0]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", OVERLAYS)
def test_overlays_are_what_kubernetes_takes(name: str, version: str) -> None:
    documents = [document for document in overlay(name) if not is_custom(document)]
    assert documents
    for document in documents:
        kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", VALUES)
def test_the_chart_is_what_kubernetes_takes(name: str, version: str) -> None:
    for document in chart(VALUES[name]):
        if not is_custom(document):
            kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_pods_inside_objects_of_others_are_what_kubernetes_takes(version: str) -> None:
    inside = [pod for pod in pods() if pod.origin.startswith("snippet")]
    assert {pod.origin.split()[1] for pod in inside} == {
        "kserve-inferenceservice.yaml",
        "leaderworkerset.yaml",
    }
    for pod in inside:
        whole = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": pod.spec}
        kubernetes_validate.validate(whole, version, strict=True)


def test_the_schemas_find_a_misspelt_key() -> None:
    (pod,) = (d for d in chart({}) if d["kind"] == "DaemonSet")
    pod["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="livenesProbe"):
        kubernetes_validate.validate(pod, VERSIONS[0], strict=True)


def operator_objects() -> list[Any]:
    found = [(o, d) for o, d in everything() if d.get("kind") in ("PodMonitor", "PrometheusRule")]
    return [pytest.param(d, id=f"{o}: {d['kind']} {d['metadata']['name']}") for o, d in found]


def unknown_keys(document: Document) -> Document:
    """Round trip through the operator's model: what it does not know is lost on the way."""
    model = getattr(operator, document["kind"]).model_validate(document)
    return dict(model.model_dump(by_alias=True, exclude_unset=True, mode="json"))


@pytest.mark.parametrize("document", operator_objects())
def test_the_operator_takes_every_key(document: Document) -> None:
    assert unknown_keys(document) == document


def test_a_misspelt_key_of_an_operator_object_is_found() -> None:
    (monitor,) = (d for d in overlay("sidecar") if d["kind"] == "PodMonitor")
    endpoint = {**monitor["spec"]["podMetricsEndpoints"][0], "scrapeTimout": "1s"}
    wrong = {**monitor, "spec": {**monitor["spec"], "podMetricsEndpoints": [endpoint]}}
    assert unknown_keys(wrong) != wrong


@pytest.mark.parametrize("value", ["0.5s", "1.5m"])
def test_the_operator_refuses_fractional_durations(value: str) -> None:
    (monitor,) = (d for d in overlay("sidecar") if d["kind"] == "PodMonitor")
    endpoint = {**monitor["spec"]["podMetricsEndpoints"][0], "interval": value}
    wrong = {**monitor, "spec": {**monitor["spec"], "podMetricsEndpoints": [endpoint]}}
    with pytest.raises(ValueError, match="interval"):
        operator.PodMonitor.model_validate(wrong)


@pytest.mark.parametrize("name", OVERLAYS)
def test_every_overlay_brings_all_rules_and_dashboards(name: str) -> None:
    documents = overlay(name)
    rules = [d for d in documents if d["kind"] == "PrometheusRule"]
    groups = [group for rule in rules for group in rule["spec"]["groups"]]
    files = [yaml.safe_load(path.read_text()) for path in sorted(RULES.glob("*.yml"))]
    assert sorted(group["name"] for group in groups) == sorted(
        group["name"] for file in files for group in file["groups"]
    )
    maps = {d["metadata"]["name"]: d for d in documents if d["kind"] == "ConfigMap"}
    assert sorted(maps) == DASHBOARDS
    for board in DASHBOARDS:
        text = (ROOT / f"dashboards/{board}.json").read_text()
        assert maps[board]["data"] == {f"{board}.json": text}
        assert maps[board]["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert len(text.encode()) < 2**20 - 2**12  # a ConfigMap holds 1 MiB


@pytest.mark.parametrize("name", OVERLAYS)
def test_prometheus_scrapes_the_page_that_the_exporter_has(name: str) -> None:
    (monitor,) = (d for d in overlay(name) if d["kind"] == "PodMonitor")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["path"] == Settings().web_telemetry_path
    assert endpoint["port"] == "memory-metrics"
    assert endpoint["honorLabels"] is False
    (selector,) = monitor["spec"]["selector"]["matchExpressions"]
    assert selector == {"key": "vllm-memory-exporter", "operator": "Exists"}


def test_the_operators_rules_are_those_of_prometheus() -> None:
    made = KUBERNETES / "components/prometheus-operator/prometheusrules.yaml"
    assert made.read_text() == prometheus_rules(RULES), "run `make manifests`"


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_the_sidecar_goes_to_labelled_workloads_only(kind: str, tmp_path: Path) -> None:
    (vllm,) = yaml.safe_load_all((KUBERNETES / "base/vllm.yaml").read_text())
    vllm["kind"] = kind
    other = {**vllm, "metadata": {"name": "other", "labels": {"app": "other"}}}
    place = tmp_path / "mine"
    place.mkdir()
    (place / "mine.yaml").write_text(yaml.safe_dump_all([vllm, other]))
    components = [str(Path("..") / "deploy/kubernetes/components/sidecar")]
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    (place / "kustomization.yaml").write_text(
        yaml.safe_dump({"resources": ["mine.yaml"], "components": components})
    )
    names = {
        document["metadata"]["name"]: [
            container["name"]
            for container in document["spec"]["template"]["spec"].get("initContainers", [])
        ]
        for document in kustomized(place)
    }
    assert names == {"vllm": ["memory-exporter"], "other": []}


@pytest.mark.parametrize("name", SNIPPETS)
def test_snippets_turn_the_plugin_on_where_the_volume_is(name: str) -> None:
    text = (KUBERNETES / "snippets" / name).read_text()
    assert "VLLM_MEMORY_TRACE_DIR" in text
    (document,) = snippet(name)
    engines = list(_engines(document))
    assert engines
    for engine in engines:
        (directory,) = (e["value"] for e in engine["env"] if e["name"] == "VLLM_MEMORY_TRACE_DIR")
        mounts = engine.get("volumeMounts", engine.get("extraVolumeMounts"))
        assert directory in {mount["mountPath"] for mount in mounts}


def _engines(node: object) -> Any:
    if isinstance(node, list):
        for item in node:
            yield from _engines(item)
    elif isinstance(node, dict):
        if any(e.get("name") == "VLLM_MEMORY_TRACE_DIR" for e in node.get("env", [])):
            yield node
        for value in node.values():
            yield from _engines(value)
