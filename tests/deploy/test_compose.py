"""The compose files as docker-compose reads them, and whether they and the mounted files agree."""

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.daemon import running
from tests.deploy.conftest import ROOT
from tests.deploy.flags import parsed
from tests.deploy.tools import tool
from tests.programs import require_program
from tests.prometheus import configured_prometheus

COMPOSE = ROOT / "deploy/compose"
FILES = {"without GPU": ("compose.yaml",), "with GPU": ("compose.yaml", "gpu.yaml")}
SERVICES = ("exporter", "prometheus", "alertmanager", "grafana")
EACH = pytest.mark.parametrize("variant", FILES)


@cache
def services(variant: str) -> dict[str, Any]:
    """The services after merging and interpolation."""
    files = [f"--file={COMPOSE / name}" for name in FILES[variant]]
    environment = {key: value for key, value in os.environ.items() if "VLLM" not in key}
    command = [tool("docker-compose"), *files, "config", "--format=json"]
    result = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    return dict(json.loads(result.stdout)["services"])


def mounts(service: dict[str, Any]) -> dict[str, str]:
    """Path in the container → path on this machine."""
    bound = (volume for volume in service.get("volumes", []) if volume["type"] == "bind")
    return {volume["target"]: volume["source"] for volume in bound}


def on_this_machine(service: dict[str, Any], path: str) -> Path:
    """The file or directory that a path in the container is."""
    for target, source in mounts(service).items():
        if path == target or path.startswith(f"{target}/"):
            return Path(source + path.removeprefix(target))
    raise AssertionError(f"{path} is not mounted")


def provisioned(name: str) -> Any:
    grafana = services("without GPU")["grafana"]
    path = on_this_machine(grafana, f"/etc/grafana/provisioning/{name}")
    (file,) = path.glob("*.yaml")
    return yaml.safe_load(file.read_text())


@pytest.mark.parametrize("name", ["compose.yaml", "gpu.yaml"])
def test_the_compose_schema_takes_it(name: str) -> None:
    command = [
        tool("check-jsonschema"),
        "--builtin-schema",
        "vendor.compose-spec",
        str(COMPOSE / name),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


@EACH
def test_every_service_is_confined(variant: str) -> None:
    assert set(services(variant)) == set(SERVICES)
    for name, service in services(variant).items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert {port["host_ip"] for port in service["ports"]} == {"127.0.0.1"}, name
        assert not service.get("privileged"), name
        image, _, tag = service["image"].partition(":")
        assert image
        assert tag.removeprefix("v").count(".") == 2, name


@EACH
def test_what_is_mounted_is_there(variant: str) -> None:
    for service in services(variant).values():
        for target, source in mounts(service).items():
            if target != "/trace":
                assert Path(source).exists(), source
        read_only = [v for v in service.get("volumes", []) if v["type"] == "bind"]
        assert all(volume["read_only"] for volume in read_only)


def test_without_gpu_it_plays_the_recording() -> None:
    exporter = services("without GPU")["exporter"]
    assert parsed(exporter["command"]).info_name == "demo"
    assert "volumes" not in exporter
    assert "deploy" not in exporter


def test_with_gpu_it_sees_them_and_the_trace() -> None:
    exporter = services("with GPU")["exporter"]
    context = parsed(exporter["command"])
    assert context.info_name == "serve"
    assert set(context.params["trace_path"]) == set(mounts(exporter))
    assert mounts(exporter) == {"/trace": "/var/run/vllm-trace"}
    (device,) = exporter["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": -1, "capabilities": ["gpu", "utility"]}


def test_prometheus_finds_the_exporter_the_rules_and_alertmanager() -> None:
    all_services = services("without GPU")
    prometheus = all_services["prometheus"]
    (flag,) = (f for f in prometheus["command"] if f.startswith("--config.file="))
    path = flag.partition("=")[2]
    config = yaml.safe_load(on_this_machine(prometheus, path).read_text())
    static = [s for job in config["scrape_configs"] for s in job.get("static_configs", [])]
    targets = {target for group in static for target in group["targets"]}
    assert "exporter:10411" in targets
    for target in targets:
        host, _, port = target.partition(":")
        if host in all_services:
            assert port in {str(p["target"]) for p in all_services[host]["ports"]}
    managers = config["alerting"]["alertmanagers"]
    assert {t for m in managers for s in m["static_configs"] for t in s["targets"]} == {
        "alertmanager:9093"
    }
    for pattern in config["rule_files"]:
        directory, _, name = str(Path(path).parent / pattern).rpartition("/")
        assert list(on_this_machine(prometheus, directory).glob(name)), pattern


def test_grafana_asks_prometheus_once_a_second() -> None:
    (source,) = provisioned("datasources")["datasources"]
    assert source["type"] == "prometheus"
    assert source["url"] == "http://prometheus:9090"
    assert source["isDefault"] is True
    assert source["jsonData"] == {"timeInterval": "1s"}


def test_grafana_has_all_dashboards() -> None:
    grafana = services("without GPU")["grafana"]
    (provider,) = provisioned("dashboards")["providers"]
    directory = on_this_machine(grafana, provider["options"]["path"])
    boards = {json.loads(path.read_text())["uid"] for path in directory.rglob("*.json")}
    assert boards == {"vllm-memory-fleet", "vllm-memory-gpu", "vllm-memory-kv"}
    home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert json.loads(on_this_machine(grafana, home).read_text())["uid"] == "vllm-memory-gpu"


def test_the_exporters_image_is_the_one_that_is_built_here() -> None:
    exporter = services("without GPU")["exporter"]
    assert Path(exporter["build"]["context"]) == ROOT
    assert exporter["image"] == "vllm-memory-exporter:0.1.0"


def test_prometheus_reads_its_configuration_and_every_rule(tmp_path: Path) -> None:
    prometheus = services("without GPU")["prometheus"]
    for target, source in mounts(prometheus).items():
        (tmp_path / Path(target).name).symlink_to(source)
    command = [require_program("promtool"), "check", "config", str(tmp_path / "prometheus.yml")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("rules found") == len(list((tmp_path / "rules").glob("*.yml")))


def test_prometheus_scrapes_the_exporter_and_evaluates_the_rules(tmp_path: Path) -> None:
    """Outside containers: the same command, configuration and rules, other host names."""
    all_services = services("without GPU")
    mounted = mounts(all_services["prometheus"])
    (tmp_path / "rules").symlink_to(mounted["/etc/prometheus/rules"])
    text = Path(mounted["/etc/prometheus/prometheus.yml"]).read_text()
    command = all_services["exporter"]["command"]
    with running(*command, "--replay.freeze-at=25") as daemon:
        here = text.replace("exporter:10411", daemon.address)
        with configured_prometheus(here, tmp_path) as server:
            assert list(server.wait_for("instance:gpu_up:sum").values()) == [2]
            query = 'vllm_kv_cache_usage_ratio{job="vllm-memory",replica="vllm-0"}'
            assert list(server.wait_for(query).values()) == [14282 / 119_996]
            assert server.wait_for('up{job="vllm-memory"}') == {
                ("up", daemon.address, "vllm-memory"): 1
            }
