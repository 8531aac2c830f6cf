"""Scrapes a daemon once a second as Prometheus would, and checks each answer's ledgers."""

import http.client
import re
import threading
import time
from pathlib import Path

from tests.daemon import samples_of

_LABEL = re.compile(r'(\w+)="([^"]*)"')


def labels(series: str) -> dict[str, str]:
    """The labels of a series as `samples_of` writes it."""
    return dict(_LABEL.findall(series))


class Scraper:
    """`scrapes` so far, `failures` among them, ledgers whose owners do not sum to total."""

    def __init__(self, address: str, directory: Path) -> None:
        self._address = address
        self._directory = directory
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._text = ""
        self.latest: dict[str, float] = {}
        self.scrapes = self.failures = self.ledgers = self.wrong_sums = 0
        self.slowest_s = 0.0

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the scrape that is under way."""
        self._stop.set()
        self._thread.join(30)

    def keep(self, name: str) -> None:
        """Write the newest exposition to a file."""
        (self._directory / f"metrics_{name}.txt").write_text(self._text)

    def of(self, family: str) -> dict[str, float]:
        """The newest samples of one family by series."""
        return {
            series: value
            for series, value in self.latest.items()
            if series.partition("{")[0] == family
        }

    def _run(self) -> None:
        due_s = time.monotonic()
        while not self._stop.is_set():
            self._scrape()
            due_s = max(due_s + 1.0, time.monotonic())
            self._stop.wait(due_s - time.monotonic())

    def _scrape(self) -> None:
        self.scrapes += 1
        started_s = time.monotonic()
        connection = http.client.HTTPConnection(self._address, timeout=10)
        try:
            connection.request("GET", "/metrics")
            response = connection.getresponse()
            text = response.read().decode()
        except (OSError, http.client.HTTPException):
            self.failures += 1
            return
        finally:
            connection.close()
        if response.status != 200:
            self.failures += 1
            return
        self.slowest_s = max(self.slowest_s, time.monotonic() - started_s)
        try:
            self._text, self.latest = text, samples_of(text)
        except (ValueError, AssertionError):
            self.failures += 1
            return
        owners: dict[str, float] = {}
        for series, value in self.of("gpu_memory_ledger_bytes").items():
            uuid = labels(series)["uuid"]
            owners[uuid] = owners.get(uuid, 0) + value
        for series, total in self.of("gpu_memory_total_bytes").items():
            uuid = labels(series)["uuid"]
            if uuid in owners:
                self.ledgers += 1
                self.wrong_sums += owners[uuid] != total
