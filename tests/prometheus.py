"""Debian's Prometheus as a process of its own, scraping one target every 500 ms."""

import json
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.daemon import TIMEOUT_S
from tests.programs import require_program

CONFIG = """
global: {{scrape_interval: 500ms, evaluation_interval: 500ms}}
scrape_configs:
  - job_name: vllm-memory
    static_configs: [{{targets: ["{target}"]}}]
"""


class Prometheus:
    """A running server that is asked through its query API."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1/"

    def ask(self, path: str, **parameters: str) -> list[dict[str, Any]]:
        """The results of a query (`path` "query" or "query_range") as the API writes them."""
        url = f"{self._url}{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url) as answer:
            results: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return results

    def values(self, query: str) -> dict[tuple[str, ...], float]:
        """Present values of a query, by their labels' values in the order of the labels' names."""
        return {
            tuple(value for name, value in sorted(result["metric"].items())): float(
                result["value"][1]
            )
            for result in self.ask("query", query=query)
        }

    def wait_for(
        self, query: str, is_right: Callable[[float], bool] = lambda _value: True
    ) -> dict[tuple[str, ...], float]:
        """Ask until there is an answer with only right values."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while True:
            with suppress(OSError):
                values = self.values(query)
                if values and all(map(is_right, values.values())):
                    return values
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"no series for {query} after {TIMEOUT_S} s")
            time.sleep(0.1)  # between two polls


@contextmanager
def prometheus(address: str, directory: Path) -> Iterator[Prometheus]:
    """A server that scrapes `address` (HOST:PORT) and keeps its data in `directory`."""
    with configured_prometheus(CONFIG.format(target=address), directory) as server:
        yield server


@contextmanager
def configured_prometheus(text: str, directory: Path, *flags: str) -> Iterator[Prometheus]:
    """A server with this configuration that keeps its data in `directory`."""
    program = require_program("prometheus")
    config = directory / "prometheus.yml"
    config.write_text(text)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    command = [
        program,
        f"--config.file={config}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
        *flags,
    ]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            yield Prometheus(port)
        finally:
            process.terminate()
            process.wait(TIMEOUT_S)
