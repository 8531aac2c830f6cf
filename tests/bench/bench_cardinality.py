"""Series of one node by what they are about, and what they cost a real Prometheus.

Eight GPUs of the stand-in driver, and the trace of a real engine (the bundled recording, written
again line by line with the time of now) as one engine over all GPUs and as one engine a GPU. Also
how many series are left after each step of docs/scale.md that drops some. Two
Prometheus servers scrape each node, every 500 ms and every second; at the end their data are taken
as a snapshot, and what they sent by remote write is counted by a receiver.
Usage: python -m tests.bench.bench_cardinality [--seconds S]
"""

import argparse
import http.client
import json
import random
import re
import socket
import subprocess
import tempfile
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from exporter.recordings import bundled_path
from tests.daemon import Daemon, running
from tests.fake_nvml import FakeGpu, FakeProcess, Scenario, build, environment

GUIDE = Path(__file__).parents[2] / "docs/scale.md"
GPUS = 8
INTERVALS = ("500ms", "1s")
PIDS_FROM = 3_900_000
WARM_UP_S = 5.0
Line = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=150.0, help="how long to scrape")
    seconds = parser.parse_args().seconds
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        nodes = [
            Node(stack, directory / name, [list(ranks) for ranks in engines])
            for name, engines in (
                ("one engine over 8 GPUs", [range(GPUS)]),
                ("8 engines of one GPU", [[gpu] for gpu in range(GPUS)]),
            )
        ]
        time.sleep(WARM_UP_S + seconds)  # what is measured is what comes in this time
        for node in nodes:
            node.report()


class Node:
    """A daemon on eight GPUs with its engines' traces, and the servers that scrape it."""

    def __init__(self, stack: ExitStack, directory: Path, engines: Sequence[Sequence[int]]) -> None:
        self._name = directory.name
        traces = directory / "traces"
        traces.mkdir(parents=True)
        scenario = directory / "scenario"
        _scenario().write(scenario)
        variables = environment(build(directory), scenario)
        stack.enter_context(_writing(traces, engines))
        self._daemon = stack.enter_context(
            running("serve", "--trace.path", str(traces), environment=variables)
        )
        self._daemon.wait_for(
            lambda samples: any("vllm_torch_reserved" in name for name in samples)
        )
        self._servers = [
            stack.enter_context(_scraping(self._daemon, interval, directory / interval))
            for interval in INTERVALS
        ]

    def report(self) -> None:
        status, body = self._daemon.get("/metrics")
        assert status == 200
        about: Counter[str] = Counter()
        by_name: Counter[str] = Counter()
        for family in text_string_to_metric_families(body.decode()):
            for sample in family.samples:
                about[_about(sample.labels, family.name)] += 1
                by_name[sample.name] += 1
        print(f"\n{self._name}: {about.total()} series, {len(body) / 1000:.0f} kB a scrape")
        print("  " + ", ".join(f"{what} {count}" for what, count in about.most_common()))
        print("  largest: " + ", ".join(f"{name} {n}" for name, n in by_name.most_common(12)))
        for step in re.findall(r"^    regex: (.+)$", GUIDE.read_text(), re.MULTILINE):
            by_name = Counter(
                {name: n for name, n in by_name.items() if not re.fullmatch(step, name)}
            )
            print(f"  {by_name.total()} series after the next step of the guide")
        for server in self._servers:
            print("  " + server.report())


class Server:
    """One Prometheus with the receiver of its remote writes."""

    def __init__(self, interval: str, port: int, directory: Path) -> None:
        self._interval = interval
        self._port = port
        self._directory = directory

    def report(self) -> str:
        sent = self._value("sum(prometheus_remote_storage_bytes_total)")
        samples_sent = self._value("sum(prometheus_remote_storage_samples_total)")
        rate = self._value("sum(rate(prometheus_tsdb_head_samples_appended_total[1m]))")
        resident = self._value('process_resident_memory_bytes{job="self"}')
        wal = sum(file.stat().st_size for file in (self._directory / "wal").iterdir())
        snapshot = self._ask("POST", "/api/v1/admin/tsdb/snapshot", {})["name"]
        (block,) = (self._directory / "snapshots" / snapshot).glob("*/meta.json")
        samples = json.loads(block.read_text())["stats"]["numSamples"]
        chunks = sum(file.stat().st_size for file in (block.parent / "chunks").iterdir())
        index = (block.parent / "index").stat().st_size
        return (
            f"{self._interval}: {rate:.0f} samples/s, {samples} samples: "
            f"{chunks / samples:.2f} B each in chunks, {(chunks + index) / samples:.2f} with the "
            f"index, {wal / samples:.1f} in the WAL, {sent / samples_sent:.1f} remote-written "
            f"({sent / samples_sent * rate / 1000:.1f} kB/s); server {resident / 1e6:.0f} MB"
        )

    def _value(self, query: str) -> float:
        (result,) = self._ask("GET", "/api/v1/query", {"query": query})["result"]
        return float(result["value"][1])

    def _ask(self, method: str, path: str, query: dict[str, str]) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        connection.request(method, f"{path}?{urllib.parse.urlencode(query)}")
        answer = json.load(connection.getresponse())
        connection.close()
        return answer["data"]


@contextmanager
def _scraping(daemon: Daemon, interval: str, directory: Path) -> Iterator[Server]:
    directory.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with _receiver() as receiver_port:
        config = directory.with_suffix(".yml")
        config.write_text(
            json.dumps(
                {
                    "global": {"scrape_interval": interval, "external_labels": {"cluster": "a"}},
                    "scrape_configs": [
                        {"job_name": "node", "static_configs": [{"targets": [daemon.address]}]},
                        {
                            "job_name": "self",
                            "scrape_interval": "5s",
                            "static_configs": [{"targets": [f"127.0.0.1:{port}"]}],
                            "metric_relabel_configs": [
                                {
                                    "source_labels": ["__name__"],
                                    "regex": "prometheus_remote_storage_(bytes|samples)_total|"
                                    "prometheus_tsdb_head_samples_appended_total|"
                                    "process_resident_memory_bytes",
                                    "action": "keep",
                                }
                            ],
                        },
                    ],
                    "remote_write": [{"url": f"http://127.0.0.1:{receiver_port}/"}],
                }
            )
        )
        command = [
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={directory}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--web.enable-admin-api",
            "--log.level=error",
        ]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            try:
                yield Server(interval, port, directory)
            finally:
                process.kill()


@contextmanager
def _receiver() -> Iterator[int]:
    """The port of a server that takes whatever is posted to it."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Taking) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


class _Taking(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base's name)
        """Nothing."""


@contextmanager
def _writing(directory: Path, engines: Sequence[Sequence[int]]) -> Iterator[None]:
    """Write every engine's trace, a line of each kind a second, until the block ends."""
    stop = threading.Event()
    writer = threading.Thread(target=_write, args=(directory, engines, stop))
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()


def _write(directory: Path, engines: Sequence[Sequence[int]], stop: threading.Event) -> None:
    lines: list[Line] = [
        json.loads(text) for text in bundled_path("h200_exhaustion").read_text().splitlines()
    ]
    (facts, *_more), kv, torch = (
        [line for line in lines if line["type"] == kind] for kind in ("engine", "kv", "torch")
    )
    for state, allocator in cycle(zip(kv, torch[: len(kv)], strict=True)):
        for number, gpus in enumerate(engines):
            of_engine = {"replica": f"blue-{number}", "ts_unix_ns": time.time_ns()}
            with (directory / f"blue-{number}.engine.jsonl").open("a") as file:
                for line in (facts, state):
                    file.write(json.dumps(line | of_engine | {"pid": PIDS_FROM + gpus[0]}) + "\n")
            for rank, gpu in enumerate(gpus):
                of_rank = {"rank": rank, "uuid": _uuid(gpu), "pid": PIDS_FROM + gpu}
                with (directory / f"blue-{number}.worker.{rank}.jsonl").open("a") as file:
                    file.write(json.dumps(allocator | of_engine | of_rank) + "\n")
        if stop.wait(1.0):
            return


def _scenario() -> Scenario:
    chance = random.Random(8)
    gpus = [
        FakeGpu(
            uuid=_uuid(index),
            bus=f"00000000:{index + 16:02X}:00.0",
            memory_used=142_000_000_000,
            utilization_gpu=[chance.randint(80, 100) for _ in range(900)],
            utilization_memory=[chance.randint(20, 60) for _ in range(900)],
            power_mw=[chance.randint(450_000, 700_000) for _ in range(900)],
            temperature_gpu=[chance.randint(55, 60) for _ in range(900)],
            processes=[FakeProcess(PIDS_FROM + index, 141_000_000_000)],
        )
        for index in range(GPUS)
    ]
    return Scenario(gpus=gpus)


def _uuid(gpu: int) -> str:
    return f"GPU-{gpu:08x}-0000-4000-8000-000000000000"


def _about(labels: dict[str, str], family: str) -> str:
    if "rank" in labels:
        return "ranks"
    if "replica" in labels:
        return "engines"
    if "pid" in labels:
        return "GPU processes"
    if "uuid" in labels:
        return "GPUs"
    return "this process" if family.startswith(("process_", "python_")) else "exporter"


if __name__ == "__main__":
    main()
