"""Recordings played in real time through daemons into one Prometheus with all our rules.

In real time, because only a running Prometheus makes the series of alerts.
"""

import json
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.daemon import running
from tests.prometheus import Prometheus, configured_prometheus
from tests.rules.scraped import RULES

JOB = "vllm-memory"
EVALUATION_S = 5


@dataclass(frozen=True, slots=True)
class Played:
    """A Prometheus that saw `seconds` of all recordings; the first began at `start_s` (Unix)."""

    prometheus: Prometheus
    start_s: float
    seconds: int


@contextmanager
def played(recordings: Mapping[str, Path], seconds: int, directory: Path) -> Iterator[Played]:
    """Play the recordings by the names of their nodes; from then on the server can be asked.

    Targets are known to Prometheus before they answer, so the first scrape is the first second.
    """
    ports = {node: _free_port() for node in recordings}
    targets = [
        {"targets": [f"127.0.0.1:{port}"], "labels": {"instance": f"{node}:10411"}}
        for node, port in ports.items()
    ]
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": f"{EVALUATION_S}s"},
        "rule_files": [f"{RULES}/*.yml"],
        "scrape_configs": [{"job_name": JOB, "static_configs": targets}],
    }
    with ExitStack() as stack:
        text = json.dumps(config)  # JSON is YAML
        server = stack.enter_context(configured_prometheus(text, directory))
        server.wait_for("count(up == 0)", lambda down: down == len(recordings))
        starts_s = []
        for node, path in recordings.items():
            stack.enter_context(
                running(
                    "serve",
                    *("--replay", str(path)),
                    *("--web.listen-address", f"127.0.0.1:{ports[node]}"),
                )
            )
            starts_s.append(time.time())
        start_s = starts_s[0]
        time.sleep(start_s + seconds - time.time())  # the recording's own time
        yield Played(server, start_s, seconds)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port
