"""Daemon, Prometheus with our rules, Alertmanager with our example, and whoever is called."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from exporter.recordings import bundled_path
from tests.alertmanager import Alertmanager, Webhook, alertmanager, webhook
from tests.daemon import running
from tests.programs import require_program
from tests.prometheus import Prometheus, configured_prometheus

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "deploy/prometheus/prometheus.yml"
EXHAUSTED = ROOT / "tests/golden/preemption.jsonl.gz"
FIRING = 'count by (alertname) (ALERTS{alertstate="firing"})'
ENGINE = {
    "job": "vllm-memory",
    "replica": "vllm-0",
    "model_name": "llama-3-8b-shape",
    "engine": "0",
}

pytestmark = pytest.mark.timeout(120)  # alerts need their time


def config_of(target: str, alertmanager_address: str) -> str:
    """The shipped example for this daemon alone, scraped every 500 ms."""
    config = yaml.safe_load(SHIPPED.read_text())
    config["rule_files"] = [str(SHIPPED.parent / path) for path in config["rule_files"]]
    config["global"]["evaluation_interval"] = "1s"
    (ours,) = (job for job in config["scrape_configs"] if job["job_name"] == "vllm-memory")
    ours |= {"scrape_interval": "500ms", "static_configs": [{"targets": [target]}]}
    config["scrape_configs"] = [ours]
    config["alerting"]["alertmanagers"] = [
        {"static_configs": [{"targets": [alertmanager_address]}]}
    ]
    return yaml.safe_dump(config)


@pytest.fixture(scope="module")
def called(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Webhook, Alertmanager, Prometheus, str]]:
    """All of them, beside a daemon that plays a pool that runs full, over and over."""
    require_program("prometheus")
    directory = tmp_path_factory.mktemp("alerting")
    with (
        webhook() as receiver,
        alertmanager(receiver.url, directory) as manager,
        running("serve", "--replay", str(EXHAUSTED)) as daemon,
        configured_prometheus(config_of(daemon.address, manager.address), directory) as server,
    ):
        yield receiver, manager, server, daemon.address


def test_whoever_is_called_learns_what_is_wrong_and_where_to_look(
    called: tuple[Webhook, Alertmanager, Prometheus, str],
) -> None:
    receiver, _manager, server, address = called
    path, alert = receiver.wait_for("VLLMMemoryKVCacheExhausted")
    assert path == "/tickets"
    assert alert["status"] == "firing"
    assert alert["labels"] == {
        "alertname": "VLLMMemoryKVCacheExhausted",
        "severity": "warning",
        "instance": address,
        **ENGINE,
    }
    annotations = alert["annotations"]
    told = f"Engine vllm-0/0 (llama-3-8b-shape) on {address} used "
    assert annotations["description"].startswith(told)
    assert annotations["runbook_url"] == (
        "https://git.example.com/vllm-memory-exporter/blob/main/docs/runbooks/"
        "VLLMMemoryKVCacheExhausted.md"
    )
    assert annotations["dashboard_url"] == (
        "https://grafana.example.com/d/vllm-memory-kv?var-job=vllm-memory"
        f"&var-instance={address.replace(':', '%3A')}"
        "&var-model_name=llama-3-8b-shape&var-engine=0"
    )
    assert set(server.wait_for(FIRING)) == {("VLLMMemoryKVCacheExhausted",)}


def test_an_engine_that_falls_silent_is_told_instead_of_its_full_pool(
    called: tuple[Webhook, Alertmanager, Prometheus, str],
) -> None:
    receiver, manager, _server, address = called
    receiver.wait_for("VLLMMemoryKVCacheExhausted")
    engine = {**ENGINE, "instance": address}
    assert manager.states(**engine) == {"VLLMMemoryKVCacheExhausted": "active"}
    manager.post({"alertname": "VLLMMemoryEngineSilent", "severity": "critical", **engine})
    assert receiver.wait_for("VLLMMemoryEngineSilent")[0] == "/pager"
    assert manager.states(**engine) == {
        "VLLMMemoryKVCacheExhausted": "suppressed",
        "VLLMMemoryEngineSilent": "active",
    }


def alert(name: str, severity: str, **labels: str) -> dict[str, str]:
    return {"alertname": f"VLLMMemory{name}", "severity": severity, "job": "j", **labels}


EXPORTER_DOWN = alert("ExporterDown", "warning")
GPU_LOST = alert("GPULost", "critical", uuid="GPU-1")
OF_ENGINE = {"replica": "a", "engine": "0"}
OF_RANK = {**OF_ENGINE, "rank": "0", "uuid": "GPU-1"}


@pytest.mark.parametrize(
    ("source", "target", "state"),
    [
        (EXPORTER_DOWN, alert("SourceDown", "warning"), "suppressed"),
        (EXPORTER_DOWN, alert("TorchOutOfMemory", "critical", **OF_RANK), "active"),
        (GPU_LOST, alert("CoTenant", "warning", uuid="GPU-1"), "suppressed"),
        (GPU_LOST, alert("CoTenant", "warning", uuid="GPU-2"), "active"),
        (GPU_LOST, alert("SourceDown", "warning"), "active"),
        (
            alert("TorchOutOfMemory", "critical", **OF_RANK),
            alert("KVCacheExhausted", "warning", **OF_ENGINE),
            "suppressed",
        ),
        (
            alert("EngineSilent", "critical", **OF_ENGINE),
            alert("KVCacheExhausted", "warning", replica="b", engine="0"),
            "active",
        ),
        (
            alert("KVCacheExhausted", "warning", **OF_ENGINE),
            alert("PrefixCacheUseless", "info", **OF_ENGINE),
            "suppressed",
        ),
        (
            alert("AllocatorFragmentation", "warning", **OF_RANK),
            alert("TorchRetries", "warning", **OF_RANK),
            "suppressed",
        ),
        (
            alert("LatencyBudgetBurnsFast", "critical", model_name="m", objective="o"),
            alert("LatencyBudgetBurnsSlowly", "warning", model_name="m", objective="o"),
            "suppressed",
        ),
        (
            alert("LatencyBudgetBurnsFast", "critical", model_name="m", objective="o"),
            alert("LatencyBudgetBurnsSlowly", "warning", model_name="m", objective="other"),
            "active",
        ),
    ],
    ids=lambda value: (
        value["alertname"].removeprefix("VLLMMemory") if isinstance(value, dict) else value
    ),
)
def test_one_cause_is_told_once(
    called: tuple[Webhook, Alertmanager, Prometheus, str],
    request: pytest.FixtureRequest,
    source: dict[str, str],
    target: dict[str, str],
    state: str,
) -> None:
    manager = called[1]
    place = {"instance": request.node.name}
    manager.post(source | place, target | place)
    expected = {source["alertname"]: "active", target["alertname"]: state}
    manager.wait_for(lambda states: states == expected, **place)  # it hears of both in turn


def test_the_incident_raises_two_alerts_and_no_other(tmp_path: Path) -> None:
    recording = str(bundled_path("h200_exhaustion"))
    with (
        webhook() as receiver,
        alertmanager(receiver.url, tmp_path) as manager,
        running("serve", "--replay", recording) as daemon,
        configured_prometheus(config_of(daemon.address, manager.address), tmp_path) as server,
    ):
        receiver.wait_for("VLLMMemoryCoTenant")
        receiver.wait_for("VLLMMemoryKVCacheExhausted")
        assert set(server.wait_for(FIRING)) == {
            ("VLLMMemoryCoTenant",),
            ("VLLMMemoryKVCacheExhausted",),
        }
