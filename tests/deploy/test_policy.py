"""What a cluster's admission and an engine next door ask of every pod of ours."""

import time
from pathlib import Path

import msgspec
import pytest

from exporter.plugin.settings import TraceSettings
from exporter.records.trace import TorchRecord
from exporter.settings import Settings, load
from tests.daemon import running
from tests.deploy.flags import settings_of
from tests.deploy.manifests import VALUES, Document, Pod, chart, pods
from tests.fake_nvml import FakeGpu, Scenario, environment

PODS = pods()
EACH = pytest.mark.parametrize("pod", PODS, ids=[pod.origin for pod in PODS])
SIDECARS = [pod for pod in PODS if pod.is_sidecar()]
EACH_SIDECAR = pytest.mark.parametrize("pod", SIDECARS, ids=[pod.origin for pod in SIDECARS])
WHOLE_NODE = ("overlay daemonset-whole-node", "chart: whole node")
HOST_PATHS = {"/var/run/vllm-trace", "/var/lib/kubelet/pod-resources"}
UNITS = {"Mi": 2**20, "Gi": 2**30}
RESIDENT_BYTES = 62_000_000  # measured with the real driver's library


def bytes_of(quantity: str) -> int:
    return int(quantity[:-2]) * UNITS[quantity[-2:]]


def trace_volume(pod: Pod) -> Document:
    (volume,) = (v for v in pod.spec["volumes"] if v["name"] == "vllm-trace")
    return dict(volume)


def test_the_pods_are_all_here() -> None:
    assert len(PODS) == 14  # 4 overlays, 7 sets of values, KServe, leader and worker
    assert len(SIDECARS) == 5


@EACH
def test_it_runs_unprivileged(pod: Pod) -> None:
    """Root only where the kubelet's socket asks for it, and without any capability there, too."""
    user = 0 if pod.origin in WHOLE_NODE else 65532
    assert pod.exporter()["securityContext"] == {
        "runAsNonRoot": user != 0,
        "runAsUser": user,
        "runAsGroup": user,
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


@EACH
def test_it_asks_for_little_and_is_never_throttled(pod: Pod) -> None:
    resources = pod.exporter()["resources"]
    assert set(resources["requests"]) >= {"cpu", "memory"}
    assert bytes_of(resources["requests"]["memory"]) > RESIDENT_BYTES
    assert set(resources.get("limits", {})) <= {"memory"}
    if "memory" in resources.get("limits", {}):
        assert bytes_of(resources["limits"]["memory"]) >= 2 * RESIDENT_BYTES


@EACH
def test_it_takes_no_gpu_from_the_engine(pod: Pod) -> None:
    resources = pod.exporter()["resources"]
    assert not any("gpu" in name for part in resources.values() for name in part)
    names = {variable["name"] for variable in pod.exporter().get("env", [])}
    flags = pod.exporter()["args"]
    if "--no-nvml" in flags:
        assert names == set()
        assert "runtimeClassName" not in pod.spec
    else:
        assert names == {"NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"}


@EACH
def test_host_access_is_only_what_the_variant_is_for(pod: Pod) -> None:
    wants_host = pod.origin in WHOLE_NODE
    volumes = pod.spec.get("volumes", [])
    paths = {volume["hostPath"]["path"] for volume in volumes if "hostPath" in volume}
    assert pod.spec.get("hostPID", False) is wants_host
    assert paths == (HOST_PATHS if wants_host else set())
    assert not {"hostNetwork", "hostIPC", "shareProcessNamespace"} & set(pod.spec)


@EACH
def test_it_reads_the_trace_and_cannot_write_it(pod: Pod) -> None:
    mounts = {m["mountPath"]: m for m in pod.exporter().get("volumeMounts", [])}
    assert all(mount["readOnly"] for mount in mounts.values())
    paths = [f.partition("=")[2] for f in pod.exporter()["args"] if f.startswith("--trace.path")]
    assert set(paths) == {m["mountPath"] for m in mounts.values() if m["name"] == "vllm-trace"}
    volumes = {volume["name"] for volume in pod.spec.get("volumes", [])}
    assert {mount["name"] for mount in mounts.values()} <= volumes


@EACH_SIDECAR
def test_the_trace_can_never_evict_the_engine(pod: Pod) -> None:
    empty_dir = trace_volume(pod)["emptyDir"]
    cap_bytes = TraceSettings.from_environment(
        {"VLLM_MEMORY_TRACE_DIR": "/trace"}
    ).max_directory_bytes
    assert bytes_of(empty_dir["sizeLimit"]) >= 4 * cap_bytes
    assert "medium" not in empty_dir
    variables = {e["name"] for c in pod.spec["containers"] for e in c.get("env", [])}
    assert "VLLM_MEMORY_TRACE_MAX_BYTES" not in variables


@EACH_SIDECAR
def test_a_sidecar_starts_before_the_engine_and_ends_after_it(pod: Pod) -> None:
    (sidecar,) = pod.spec["initContainers"]
    assert sidecar["name"] == "memory-exporter"
    assert sidecar["restartPolicy"] == "Always"


@EACH_SIDECAR
def test_a_sidecar_cannot_unready_the_engine(pod: Pod) -> None:
    assert "readinessProbe" not in pod.exporter()
    assert pod.exporter()["startupProbe"]["httpGet"]["path"] == "/-/ready"


@EACH
def test_it_is_restarted_only_after_a_minute_of_silence(pod: Pod) -> None:
    probe = pod.exporter()["livenessProbe"]
    assert probe["httpGet"]["path"] == "/-/healthy"
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 60
    assert probe["timeoutSeconds"] >= 5


@EACH
def test_probes_ask_the_port_where_it_listens(pod: Pod) -> None:
    exporter = pod.exporter()
    assert exporter["ports"] == [{"name": "memory-metrics", "containerPort": 10411}]
    assert Settings().web_listen_address == ":10411"
    probes = [value for key, value in exporter.items() if key.endswith("Probe")]
    assert {probe["httpGet"]["port"] for probe in probes} == {"memory-metrics"}
    names = [port.get("name") for c in pod.containers() for port in c.get("ports", [])]
    assert len(names) == len(set(names))


def test_all_sidecars_that_see_gpus_are_the_same_container() -> None:
    """The snippets are copies: other kinds of objects cannot be patched."""
    seeing = [pod.exporter() for pod in SIDECARS if "--no-nvml" not in pod.exporter()["args"]]
    assert len(seeing) == 4
    assert all(container == seeing[0] for container in seeing)


@EACH
def test_the_pod_monitor_finds_it(pod: Pod) -> None:
    assert pod.labels["vllm-memory-exporter"] in ("sidecar", "daemonset")


@EACH
def test_every_flag_exists_and_its_value_is_taken(pod: Pod) -> None:
    settings = settings_of(pod.exporter()["args"])
    mounted = {m["mountPath"] for m in pod.exporter().get("volumeMounts", [])}
    if settings.kubernetes_pod_resources is not None:
        assert str(Path(settings.kubernetes_pod_resources).parent) in mounted
    has_trace = any(m["name"] == "vllm-trace" for m in pod.exporter().get("volumeMounts", []))
    assert settings.trace_paths == (("/trace",) if has_trace else ())


@pytest.mark.parametrize("name", [name for name in VALUES if "config" in VALUES[name]])
def test_the_charts_configuration_file_is_what_the_exporter_reads(
    name: str, tmp_path: Path
) -> None:
    documents = chart(VALUES[name])
    (config,) = (d for d in documents if d["kind"] == "ConfigMap")
    (pod,) = (pod for pod in PODS if pod.origin == f"chart: {name}")
    (volume,) = (v for v in pod.spec["volumes"] if v["name"] == "config")
    assert volume["configMap"]["name"] == config["metadata"]["name"]
    (flag,) = (f for f in pod.exporter()["args"] if f.startswith("--config.file="))
    mount, file = flag.removeprefix("--config.file=").rsplit("/", 1)
    assert mount in {m["mountPath"] for m in pod.exporter()["volumeMounts"]}
    path = tmp_path / file
    path.write_text(config["data"][file])
    assert load(str(path), {}).nvml_interval_s == 0.1


def test_a_driver_that_hangs_and_a_missing_engine_do_not_hold_the_engine_back(
    fake_nvml_library: Path, tmp_path: Path
) -> None:
    """The startup probe's page: it must not wait for anything but the exporter itself."""
    scenario = tmp_path / "scenario"
    Scenario(gpus=[FakeGpu(uuid="GPU-a")], delay_s={"*": 600}).write(scenario)
    trace = tmp_path / "trace"
    trace.mkdir()
    variables = environment(fake_nvml_library, scenario)
    with running("serve", "--trace.path", str(trace), environment=variables) as daemon:
        daemon.wait_for(bool)
        assert daemon.get("/-/ready")[0] == 200
        assert daemon.get("/-/healthy")[0] == 200


def test_without_gpu_access_the_plugin_tells_the_devices_memory(tmp_path: Path) -> None:
    """The sidecar's own flags, on a trace with one record of the allocator."""
    (pod,) = (pod for pod in SIDECARS if "--no-nvml" in pod.exporter()["args"])
    record = TorchRecord(
        v=1,
        ts_unix_ns=time.time_ns(),
        pid=7,
        replica="vllm-0",
        engine="0",
        interval_s=60,
        rank=0,
        uuid="GPU-a",
        device_free_bytes=1_209_597_952,
        device_total_bytes=150_109_880_320,
    )
    file = tmp_path / "vllm-0.worker.dp0.r0.7-1.jsonl"
    file.write_bytes(msgspec.json.encode(record) + b"\n")
    labels = 'device="",engine="0",model_name="",rank="0",replica="vllm-0",uuid="GPU-a"'
    free = f"vllm_torch_device_free_bytes{{{labels}}}"
    flags = [flag.replace("=/trace", f"={tmp_path}") for flag in pod.exporter()["args"]]
    with running(*flags) as daemon:
        samples = daemon.wait_for(lambda samples: free in samples)
    assert samples[free] == 1_209_597_952
    assert samples[f"vllm_torch_device_total_bytes{{{labels}}}"] == 150_109_880_320
    assert not any(series.startswith("gpu_memory") for series in samples)
