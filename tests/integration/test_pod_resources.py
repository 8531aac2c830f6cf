"""Who holds which GPU, asked from a real gRPC server on a unix socket."""

import json
import re
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from exporter.clock import ManualClock
from exporter.errors import SourceUnavailable
from exporter.records.pods import GpuHolder
from exporter.sources.pod_resources import PodResourcesSource
from tests.daemon import run, running
from tests.fake_nvml import FakeGpu, Scenario, environment
from tests.kubelet import Kubelet, pod, serving
from tests.prometheus import configured_prometheus

A = "GPU-0000000a-0000-0000-0000-000000000000"
B = "GPU-0000000b-0000-0000-0000-000000000000"
NOT_LISTED = "GPU-0000000f-0000-0000-0000-000000000000"
PAGE = Path(__file__).parents[2] / "docs/kubernetes-pods.md"
AS_A_POD = """
global: {{scrape_interval: 500ms}}
scrape_configs:
  - job_name: vllm-memory
    static_configs:
      - targets: ["{target}"]
        labels: {{namespace: monitoring, pod: exporter-7, container: memory-exporter}}
"""
HOSTILE = 'a"b\\c\nd{}é\u2028'
SOURCE_UP = 'vllm_memory_exporter_source_up{source="pod_resources"}'


def series(device: str, uuid: str, name: str, namespace: str = "serving") -> str:
    return (
        f'gpu_pod_info{{container="vllm",device="{device}",namespace="{namespace}",pod="{name}",'
        f'uuid="{uuid}"}}'
    )


def pods_in(samples: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in samples.items() if name.startswith("gpu_pod_info")}


@pytest.fixture
def socket_path() -> Iterator[Path]:
    """In a directory with a short name: a socket's path has 107 bytes at most."""
    directory = Path(tempfile.mkdtemp(dir="/tmp"))
    yield directory / "kubelet.sock"
    shutil.rmtree(directory)


@pytest.fixture
def source(socket_path: Path) -> PodResourcesSource:
    return PodResourcesSource(str(socket_path), ManualClock(1_800_000_000_000_000_007))


def holders(source: PodResourcesSource) -> list[tuple[str, str]]:
    return [(holder.uuid, holder.pod) for holder in source.read().holders]


def refusal(source: PodResourcesSource) -> tuple[str, str]:
    """Reason and text of a read that fails."""
    with pytest.raises(SourceUnavailable) as caught:
        source.read()
    assert "\n" not in str(caught.value)
    return caught.value.reason, str(caught.value)


class TestSource:
    def test_a_list_is_a_reading_of_now(
        self, source: PodResourcesSource, socket_path: Path
    ) -> None:
        with serving(Kubelet(socket_path, pod("blue-0", [A]))):
            reading = source.read()
        assert reading.holders == (GpuHolder(A, "serving", "blue-0", "vllm"),)
        assert (reading.ts_unix_ns, reading.interval_s) == (1_800_000_000_000_000_007, 10.0)
        assert not source.errors

    def test_pods_come_and_go(self, source: PodResourcesSource, socket_path: Path) -> None:
        with serving(Kubelet(socket_path, pod("blue-0", [A]))) as kubelet:
            assert holders(source) == [(A, "blue-0")]
            kubelet.lists(pod("green-0", [A]), pod("green-1", [B]))
            assert holders(source) == [(A, "green-0"), (B, "green-1")]
            kubelet.lists()
            assert holders(source) == []

    def test_a_kubelet_that_starts_later_goes_and_comes_back_is_read_at_once(
        self, source: PodResourcesSource, socket_path: Path
    ) -> None:
        reason, text = refusal(source)
        assert reason == "unreachable"
        assert text.startswith(f"{socket_path}: ")
        assert "No such file or directory" in text
        with serving(Kubelet(socket_path, pod("blue-0", [A]))):
            assert holders(source) == [(A, "blue-0")]
        assert refusal(source)[0] == "unreachable"
        with serving(Kubelet(socket_path, pod("blue-1", [B]))):
            assert holders(source) == [(B, "blue-1")]

    def test_gpus_without_uuid_are_counted(
        self, source: PodResourcesSource, socket_path: Path
    ) -> None:
        with serving(Kubelet(socket_path, pod("blue-0", ["nvidia0", A, "nvidia1"]))):
            assert holders(source) == [(A, "blue-0")]
        assert dict(source.errors) == {"gpu_without_uuid": 2}

    def test_a_hanging_kubelet_is_given_up(
        self, source: PodResourcesSource, socket_path: Path
    ) -> None:
        with serving(Kubelet(socket_path)) as kubelet:
            kubelet.hangs()
            assert refusal(source)[0] == "timed_out"
            kubelet.lists(pod("blue-0", [A]))
            assert holders(source) == [(A, "blue-0")]

    @pytest.mark.parametrize(
        ("code", "reason"),
        [
            (grpc.StatusCode.RESOURCE_EXHAUSTED, "resource_exhausted"),
            (grpc.StatusCode.UNIMPLEMENTED, "unimplemented"),
            (grpc.StatusCode.INTERNAL, "internal"),
        ],
        ids=str,
    )
    def test_a_refusal_is_named_by_its_code(
        self,
        source: PodResourcesSource,
        socket_path: Path,
        code: grpc.StatusCode,
        reason: str,
    ) -> None:
        with serving(Kubelet(socket_path)) as kubelet:
            kubelet.fails(code, "not\nnow")
            told, text = refusal(source)
        assert told == reason
        assert text.startswith(f"{socket_path}: not now; ")

    def test_what_is_no_list_is_refused(
        self, source: PodResourcesSource, socket_path: Path
    ) -> None:
        with serving(Kubelet(socket_path)) as kubelet:
            kubelet.answer = lambda _context: b"\x0a\x05ab"
            assert refusal(source)[0] == "bad_response"

    def test_an_answer_without_bounds_is_not_taken(
        self, source: PodResourcesSource, socket_path: Path
    ) -> None:
        with serving(Kubelet(socket_path)) as kubelet:
            kubelet.answer = lambda _context: bytes(16 * 2**20 + 1)
            assert refusal(source)[0] == "resource_exhausted"

    def test_a_socket_that_speaks_something_else_is_refused(
        self, source: PodResourcesSource, socket_path: Path
    ) -> None:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(socket_path))
            listener.listen()
            answering = threading.Thread(target=_answer_http, args=(listener,))
            answering.start()
            assert refusal(source)[0] in ("unreachable", "timed_out")
            listener.shutdown(socket.SHUT_RDWR)
            answering.join()

    def test_a_path_may_hold_any_character(self, socket_path: Path) -> None:
        strange = socket_path.parent / "a b%20#?é.sock"
        with serving(Kubelet(socket_path, pod("blue-0", [A]))):
            strange.symlink_to(socket_path)
            assert holders(PodResourcesSource(str(strange), ManualClock(1))) == [(A, "blue-0")]


def _answer_http(listener: socket.socket) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@pytest.fixture
def driver(fake_nvml_library: Path, tmp_path: Path) -> dict[str, str]:
    """Variables that make a process see two GPUs."""
    scenario = tmp_path / "scenario"
    gpus = [FakeGpu(uuid=A, memory_used=7_000), FakeGpu(uuid=B, memory_used=9_000)]
    Scenario(gpus=gpus).write(scenario)
    return environment(fake_nvml_library, scenario)


def asking(socket_path: Path, *more: str) -> tuple[str, ...]:
    return ("serve", "--kubernetes.pod-resources", str(socket_path), *more)


def are_joined(samples: dict[str, float]) -> bool:
    """Both the kubelet and the driver have answered."""
    return samples.get(SOURCE_UP) == 1 and f'gpu_up{{device="cuda:1",uuid="{B}"}}' in samples


class TestDaemon:
    def test_each_pod_of_each_gpu_is_a_series_and_a_gpu_that_nvml_lacks_has_no_device(
        self, socket_path: Path, driver: dict[str, str]
    ) -> None:
        pods = (pod("blue-0", [f"{B}::0"]), pod("blue-1", [f"{B}::1"]), pod("odd", [NOT_LISTED]))
        with (
            serving(Kubelet(socket_path, *pods)),
            running(*asking(socket_path), environment=driver) as daemon,
        ):
            assert pods_in(daemon.wait_for(are_joined)) == {
                series("cuda:1", B, "blue-0"): 1,
                series("cuda:1", B, "blue-1"): 1,
                series("", NOT_LISTED, "odd"): 1,
            }

    def test_without_nvml_the_uuid_alone_tells_the_gpu(self, socket_path: Path) -> None:
        with (
            serving(Kubelet(socket_path, pod("blue-0", [A]))),
            running(*asking(socket_path, "--no-nvml")) as daemon,
        ):
            samples = daemon.wait_for(lambda samples: bool(pods_in(samples)))
            assert pods_in(samples) == {series("", A, "blue-0"): 1}

    def test_names_are_escaped(self, socket_path: Path) -> None:
        with (
            serving(Kubelet(socket_path, pod(HOSTILE, [A], namespace=HOSTILE))),
            running(*asking(socket_path, "--no-nvml")) as daemon,
        ):
            samples = daemon.wait_for(lambda samples: bool(pods_in(samples)))
            assert pods_in(samples) == {series("", A, HOSTILE, HOSTILE): 1}

    def test_a_hanging_kubelet_delays_neither_a_scrape_nor_the_end(self, socket_path: Path) -> None:
        with serving(Kubelet(socket_path)) as kubelet:
            kubelet.hangs()
            with running(*asking(socket_path, "--no-nvml")) as daemon:
                assert kubelet.asked.wait(10)
                assert pods_in(daemon.wait_for(lambda samples: SOURCE_UP in samples)) == {}
                assert daemon.terminate() == 0
        assert not [line for line in daemon.log if "Traceback" in line]

    def test_a_missing_socket_is_said_once_with_the_fix(self, socket_path: Path) -> None:
        with running(*asking(socket_path, "--no-nvml")) as daemon:
            error = (
                'vllm_memory_exporter_source_errors_total{reason="unreachable",'
                'source="pod_resources"}'
            )
            samples = daemon.wait_for(lambda samples: samples.get(error, 0) >= 1)
            assert samples[SOURCE_UP] == 0
            assert daemon.get("/-/ready")[0] == 200
            assert daemon.terminate() == 0
        about_pods = [line for line in daemon.log if "source pod_resources" in line]
        assert len(about_pods) == 1
        assert "mount the kubelet's directory" in about_pods[0]
        assert all(line.startswith("ts=") for line in daemon.log)

    def test_the_pages_query_gives_the_gpu_memory_of_a_pod_in_prometheus(
        self, socket_path: Path, driver: dict[str, str], tmp_path: Path
    ) -> None:
        """The exporter is a pod itself, to whose series Prometheus adds the pod's labels."""
        query, _of_slices = re.findall(r"```\n(sum.+?)```", PAGE.read_text(), re.DOTALL)
        pods = (pod("blue-0", [A]), pod("green-0", [B]))
        with (
            serving(Kubelet(socket_path, *pods)),
            running(*asking(socket_path), environment=driver) as daemon,
            configured_prometheus(AS_A_POD.format(target=daemon.address), tmp_path) as server,
        ):
            assert server.wait_for(query) == {
                ("serving", "blue-0"): 7_000,
                ("serving", "green-0"): 9_000,
            }

    def test_what_was_recorded_is_replayed(
        self, socket_path: Path, driver: dict[str, str], tmp_path: Path
    ) -> None:
        recording = tmp_path / "pods.jsonl"
        flags = ("--kubernetes.pod-resources", str(socket_path), "--output", str(recording))
        with serving(Kubelet(socket_path, pod("blue-0", [A]))):
            result = run("record", *flags, "--for", "2s", environment=driver)
        assert result.returncode == 0, result.stderr
        kinds = [json.loads(line)["type"] for line in recording.read_text().splitlines()]
        assert kinds.count("pods") == 1
        with running("serve", "--replay", str(recording), "--replay.freeze-at", "1.4") as daemon:
            assert pods_in(daemon.samples()) == {series("cuda:0", A, "blue-0"): 1}


def test_without_the_extra_one_line_names_it(tmp_path: Path) -> None:
    (tmp_path / "grpc.py").write_text("raise ImportError(\"No module named 'grpc'\")\n")
    result = run(
        *asking(tmp_path / "kubelet.sock", "--web.listen-address", "127.0.0.1:0"),
        environment={"PYTHONPATH": str(tmp_path)},
    )
    assert result.returncode == 2
    assert result.stderr == (
        "vllm-memory-exporter: --kubernetes.pod-resources: gRPC cannot be loaded"
        " (No module named 'grpc'); pip install 'vllm-memory-exporter[kubernetes]'\n"
    )


def test_grpc_is_loaded_only_when_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "grpc.py").write_text("raise SystemExit('gRPC was loaded')\n")
    with running("serve", "--no-nvml", environment={"PYTHONPATH": str(tmp_path)}) as daemon:
        daemon.wait_for(lambda samples: "gpu_up" not in samples)
        assert daemon.terminate() == 0
