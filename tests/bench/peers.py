"""A running exporter, ours or a peer's, on the stand-in driver: its cost and speed."""

import http.client
import os
import socket
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
START_TIMEOUT_S = 30.0


@dataclass
class Figures:
    """What was measured of one exporter, one entry a round."""

    cpu_ratio: list[float] = field(default_factory=list)
    scrape_ms: list[float] = field(default_factory=list)
    resident_mb: list[float] = field(default_factory=list)
    samples: int = 0

    def line(self, name: str) -> str:
        return (
            f"{name:<24} CPU {100 * statistics.median(self.cpu_ratio):6.2f} % of a core"
            f"   scrape p50 {statistics.median(self.scrape_ms):7.2f} ms"
            f"   resident {max(self.resident_mb):5.1f} MB   {self.samples} samples"
        )


class Peer:
    """One exporter as a process of its own, listening on a free port of 127.0.0.1."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name = name
        self.figures = Figures()
        self._command = command
        self._environment = environment

    def measure(self, seconds: float) -> None:
        """Run it for one round, scraping once a second; adds to `figures`."""
        port = _free_port()
        command = [part.replace("{port}", str(port)) for part in self._command]
        with subprocess.Popen(
            command,
            env=os.environ | self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                _wait_until_it_answers(port)
                time.sleep(2)  # a warm-up, not a synchronisation
                cpu_before_s = _cpu_seconds(process.pid)
                started_s = time.monotonic()
                # as Prometheus does, one connection for as long as the server keeps it
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
                while time.monotonic() < started_s + seconds:
                    scrape_started_s = time.monotonic()
                    body = _scrape(connection)
                    self.figures.scrape_ms.append(1000 * (time.monotonic() - scrape_started_s))
                    time.sleep(1)
                connection.close()
                elapsed_s = time.monotonic() - started_s
                self.figures.cpu_ratio.append(
                    (_cpu_seconds(process.pid) - cpu_before_s) / elapsed_s
                )
                self.figures.resident_mb.append(_resident_mb(process.pid))
                lines = body.decode().splitlines()
                self.figures.samples = sum(not line.startswith("#") for line in lines)
            finally:
                process.terminate()
                process.wait(10)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _wait_until_it_answers(port: int) -> None:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline_s:
        with suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            try:
                if b"gpu" in _scrape(connection):
                    return
            finally:
                connection.close()
        time.sleep(0.1)
    raise TimeoutError(f"nothing to scrape on port {port} after {START_TIMEOUT_S} s")


def _scrape(connection: http.client.HTTPConnection) -> bytes:
    connection.request("GET", "/metrics")
    return connection.getresponse().read()


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def _resident_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise ValueError(f"process {pid} tells no VmRSS")
