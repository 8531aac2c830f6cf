"""Debian's Alertmanager as a process of its own, and a receiver for what it sends."""

import json
import re
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.daemon import TIMEOUT_S
from tests.programs import require_program

SHIPPED = Path(__file__).parents[1] / "deploy/alertmanager/alertmanager.yml"
ALERT_TIMEOUT_S = 60.0
RECEIVER = "http://localhost:8060"


class Webhook:
    """Takes notifications on a free port and keeps each with the path it came to."""

    def __init__(self) -> None:
        self._arrived = threading.Condition()
        self._notifications: list[tuple[str, dict[str, Any]]] = []
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                webhook._keep(self.path, json.loads(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_parts: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def wait_for(self, name: str) -> tuple[str, dict[str, Any]]:
        """The path and the first alert of that name that came."""
        deadline_s = time.monotonic() + ALERT_TIMEOUT_S
        with self._arrived:
            while True:
                for path, notification in self._notifications:
                    for alert in notification["alerts"]:
                        if alert["labels"]["alertname"] == name:
                            return path, alert
                if time.monotonic() > deadline_s:
                    raise TimeoutError(f"no {name} among {self._notifications}")
                self._arrived.wait(0.5)

    def close(self) -> None:
        """End the server and its thread."""
        self._server.shutdown()
        self._thread.join(TIMEOUT_S)
        self._server.server_close()

    def _keep(self, path: str, notification: dict[str, Any]) -> None:
        with self._arrived:
            self._notifications.append((path, notification))
            self._arrived.notify_all()


class Alertmanager:
    """A running server, asked and told through its API."""

    def __init__(self, address: str) -> None:
        self.address = address

    def post(self, *alerts: Mapping[str, str]) -> None:
        """Tell of alerts, by their labels, as Prometheus does."""
        body = json.dumps([{"labels": labels} for labels in alerts]).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._url, body, headers)
        urllib.request.urlopen(request).close()

    def states(self, **labels: str) -> dict[str, str]:
        """State (active, suppressed) of the alerts with these labels, by their names."""
        with urllib.request.urlopen(self._url) as answer:
            alerts: list[dict[str, Any]] = json.load(answer)
        return {
            alert["labels"]["alertname"]: alert["status"]["state"]
            for alert in alerts
            if labels.items() <= alert["labels"].items()
        }

    def wait_for(self, is_right: Callable[[dict[str, str]], bool], **labels: str) -> dict[str, str]:
        """Ask for the states until they are right."""
        deadline_s = time.monotonic() + TIMEOUT_S
        states: dict[str, str] = {}
        while time.monotonic() < deadline_s:
            with suppress(OSError):
                states = self.states(**labels)
                if is_right(states):
                    return states
            time.sleep(0.1)  # between two polls
        raise TimeoutError(f"last: {states}")

    @property
    def _url(self) -> str:
        return f"http://{self.address}/api/v2/alerts"


@contextmanager
def webhook() -> Iterator[Webhook]:
    """A receiver until the block ends."""
    receiver = Webhook()
    try:
        yield receiver
    finally:
        receiver.close()


@contextmanager
def alertmanager(receiver_url: str, directory: Path) -> Iterator[Alertmanager]:
    """The shipped example, but that it sends at once, and to `receiver_url`."""
    program = require_program("prometheus-alertmanager")
    text = SHIPPED.read_text().replace(RECEIVER, receiver_url)
    config = directory / "alertmanager.yml"
    config.write_text(re.sub(r"group_wait: \w+", "group_wait: 0s", text))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    command = [
        program,
        f"--config.file={config}",
        f"--storage.path={directory / 'alertmanager'}",
        f"--web.listen-address={address}",
        "--cluster.listen-address=",
        "--log.level=error",
    ]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            server = Alertmanager(address)
            server.wait_for(lambda states: states == {})
            yield server
        finally:
            process.terminate()
            process.wait(TIMEOUT_S)
