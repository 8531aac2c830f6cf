"""The chart: lint, a schema that knows every value, the same pod as the manifests' daemonset."""

import re
from copy import deepcopy
from operator import itemgetter
from typing import Any

import helm_python
import pytest
import yaml
from helm_python import Chart, HelmValuesError

from exporter import __version__
from exporter.settings import KEYS
from tests.deploy.manifests import CHART, VALUES, Document, chart, overlay


def pod_of(documents: list[Document]) -> Document:
    (daemonset,) = (d for d in documents if d["kind"] == "DaemonSet")
    return deepcopy(dict(daemonset["spec"]["template"]["spec"]))


@pytest.mark.parametrize("name", VALUES)
def test_lint_finds_nothing(name: str) -> None:
    report = helm_python.lint(CHART, VALUES[name], strict=True, namespace="monitoring")
    assert report["errors"] == []
    assert [m["error"] for m in report["messages"]] == ["icon is recommended"]


def test_its_versions_are_the_exporters() -> None:
    metadata = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (metadata["version"], str(metadata["appVersion"])) == (__version__, __version__)


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({"hostPid": True}, "hostPid"),
        ({"image": {"repo": "x"}}, "repo"),
        ({"image": {"pullPolicy": "Sometimes"}}, "pullPolicy"),
        ({"trace": {"hostPath": "relative"}}, "hostPath"),
        ({"trace": {"path": "/x"}}, "path"),
        ({"extraArgs": "--log.format=json"}, "extraArgs"),
        ({"extraArgs": ["log.format=json"]}, "extraArgs"),
        ({"config": {"nvlm": {"interval": "1s"}}}, "nvlm"),
        ({"resources": {"limit": {"memory": "1Gi"}}}, "limit"),
        ({"resources": {"limits": {"nvidia.com/gpu": 1}}}, "nvidia.com/gpu"),
        ({"podMonitor": {"interval": "0.5s"}}, "interval"),
        ({"maxUnavailable": "ten"}, "maxUnavailable"),
        ({"nodeSelector": {"nvidia.com/gpu.present": True}}, "gpu.present"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_mistake_in_the_values_is_refused(values: Document, place: str) -> None:
    with Chart.load(CHART) as loaded, pytest.raises(HelmValuesError, match=re.escape(place)):
        loaded.render(values, name="vme", namespace="monitoring")


def test_the_schema_knows_every_default_and_every_section_of_the_settings() -> None:
    with Chart.load(CHART) as loaded:
        schema, values = loaded.schema, loaded.values
    assert schema is not None
    assert set(schema["properties"]) == {*values, "global"}
    for key, part in values.items():
        if schema["properties"][key].get("additionalProperties") is False:
            assert set(schema["properties"][key]["properties"]) >= set(part), key
    sections = {key.split(".")[0] for key in KEYS}
    assert set(schema["properties"]["config"]["propertyNames"]["enum"]) <= sections


@pytest.mark.parametrize(
    ("values", "name"), [({}, "daemonset"), (VALUES["whole node"], "daemonset-whole-node")]
)
def test_its_pod_is_that_of_the_manifests(values: Document, name: str) -> None:
    ours = pod_of(chart(values))
    assert ours["containers"][0].pop("imagePullPolicy") == "IfNotPresent"
    theirs = pod_of(overlay(name))
    for pod in (ours, theirs):
        pod.get("volumes", []).sort(key=itemgetter("name"))
        pod["containers"][0].get("volumeMounts", []).sort(key=itemgetter("name"))
    assert ours == theirs


def test_values_reach_the_pod() -> None:
    def pod(name: str) -> Document:
        return pod_of(chart(VALUES[name]))

    assert pod("registry")["containers"][0]["image"] == "registry.example/exporter:2"
    assert pod("registry")["imagePullSecrets"] == [{"name": "pull"}]
    assert "runtimeClassName" not in pod("default runtime")
    assert pod("default runtime")["nodeSelector"]["pool"] == "gpu"
    assert "--log.format=json" in pod("config")["containers"][0]["args"]
    assert pod("placement")["priorityClassName"] == "system-node-critical"
    assert "tolerations" not in pod("placement")
    assert pod("placement")["containers"][0]["resources"]["requests"]["cpu"] == "100m"


def test_the_pod_monitor_selects_the_pods_of_its_release_only() -> None:
    documents = chart(VALUES["operator"], "one")
    (monitor,) = (d for d in documents if d["kind"] == "PodMonitor")
    (daemonset,) = (d for d in documents if d["kind"] == "DaemonSet")
    wanted = monitor["spec"]["selector"]["matchLabels"]
    labels = daemonset["spec"]["template"]["metadata"]["labels"]
    assert wanted.items() <= labels.items()
    assert daemonset["spec"]["selector"]["matchLabels"] == wanted
    assert wanted["app.kubernetes.io/instance"] == "one"
    assert monitor["metadata"]["labels"]["release"] == "kube-prometheus-stack"
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["interval"] == "500ms"
    assert endpoint["port"] == "memory-metrics"


def test_without_the_operator_there_is_no_pod_monitor() -> None:
    assert [d["kind"] for d in chart({})] == ["DaemonSet"]


def test_another_configuration_starts_new_pods() -> None:
    def checksum(interval: str) -> Any:
        documents = chart({"config": {"nvml": {"interval": interval}}})
        (daemonset,) = (d for d in documents if d["kind"] == "DaemonSet")
        return daemonset["spec"]["template"]["metadata"]["annotations"]["checksum/config"]

    assert checksum("1s") == checksum("1s")
    assert checksum("1s") != checksum("2s")


@pytest.mark.parametrize(
    ("release", "name"),
    [("vme", "vme-vllm-memory-exporter"), ("vllm-memory-exporter", "vllm-memory-exporter")],
)
def test_names_follow_the_release(release: str, name: str) -> None:
    assert {d["metadata"]["name"] for d in chart(VALUES["config"], release)} == {name}
