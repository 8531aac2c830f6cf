"""The real program as a process of its own, and what it answers over HTTP."""

import http.client
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from prometheus_client.parser import text_string_to_metric_families

TIMEOUT_S = 30.0
_ADDRESS = re.compile(r"serves at https?://([\d.]+:\d+)")


class Daemon:
    """A started program: its address, its log, its metrics."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.log: list[str] = []
        self._has_line = threading.Condition()
        self._reader = threading.Thread(target=self._read_log)
        self._reader.start()
        self.address = self.wait_for_log(_ADDRESS).group(1)

    def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        """Status and body of a GET."""
        connection = http.client.HTTPConnection(self.address, timeout=TIMEOUT_S)
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def samples(self) -> dict[str, float]:
        """Every sample of /metrics, by its series as Prometheus writes it: ``name{a="b"}``."""
        status, body = self.get("/metrics")
        assert status == 200, body
        return samples_of(body.decode())

    def wait_for(self, is_there: Callable[[dict[str, float]], bool]) -> dict[str, float]:
        """Scrape until it is there."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while True:
            status, body = self.get("/metrics")
            samples = samples_of(body.decode()) if status == 200 else {}
            if is_there(samples):
                return samples
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"not there after {TIMEOUT_S} s; last: {samples}; {self.log}")
            time.sleep(0.05)  # between two polls

    def wait_for_log(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """The first log line that matches; lines before now count."""
        deadline_s = time.monotonic() + TIMEOUT_S
        with self._has_line:
            while True:
                for line in self.log:
                    if match := pattern.search(line):
                        return match
                is_over = self.process.poll() is not None and not self._reader.is_alive()
                if is_over or time.monotonic() > deadline_s:
                    raise TimeoutError(f"no line {pattern.pattern!r} in {self.log}")
                self._has_line.wait(0.1)

    def terminate(self) -> int:
        """Send SIGTERM, and wait for the process and the last line of its log; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(TIMEOUT_S)
        self._reader.join(TIMEOUT_S)
        return code

    def close(self) -> None:
        """End it however it stands."""
        self.process.kill()
        self.process.wait(TIMEOUT_S)
        self._reader.join(TIMEOUT_S)
        if self.process.stderr:
            self.process.stderr.close()

    def _read_log(self) -> None:
        for line in self.process.stderr or ():
            with self._has_line:
                self.log.append(line.rstrip("\n"))
                self._has_line.notify_all()


@contextmanager
def running(*arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[Daemon]:
    """The program with these arguments on a free port of 127.0.0.1, until the block ends."""
    command, *flags = arguments
    listen = ("--web.listen-address", "127.0.0.1:0")
    process = subprocess.Popen(
        [sys.executable, "-m", "exporter", command, *listen, *flags],
        env=_variables(environment),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        daemon = Daemon(process)
    except BaseException:
        process.kill()
        process.wait(TIMEOUT_S)
        raise
    try:
        yield daemon
    finally:
        daemon.close()


def run(
    *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The program with these arguments, until it ends."""
    return subprocess.run(
        [sys.executable, "-m", "exporter", *arguments],
        env=_variables(environment),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def samples_of(text: str) -> dict[str, float]:
    """Every sample of an exposition, by its series; labels in order of their names."""
    samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            series = f"{sample.name}{{{labels}}}" if labels else sample.name
            assert series not in samples, f"{series} twice"
            samples[series] = sample.value
    return samples


def _variables(environment: Mapping[str, str] | None) -> dict[str, str]:
    return {**os.environ, **(environment or {})}
