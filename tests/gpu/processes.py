"""The processes of a run on a GPU machine, and the files that they and it leave behind."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any


class Run:
    """Where everything goes, and since when."""

    def __init__(self, out: Path, mode: str) -> None:
        self.mode = mode
        self.out = out
        self.work = Path(tempfile.mkdtemp(prefix="several_gpus_"))
        self.trace = self.work / "trace"
        self.trace.mkdir()
        (self.trace / "before.jsonl").touch()  # else readers look rarely until the engine is there
        self._started_s = time.monotonic()
        self._phases: list[tuple[float, str]] = []

    def path(self, name: str) -> Path:
        """A file that is brought back by itself."""
        return self.out / f"{self.mode}_{name}"

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self._started_s:6.1f} s  {text}", flush=True)

    def phase(self, name: str) -> None:
        self._phases.append((time.time(), name))
        self.path("phases.json").write_text(json.dumps(self._phases))
        self.say(name)

    def start(self, name: str, command: list[str], **environment: str) -> subprocess.Popen[bytes]:
        """A process of its own group, its output in a file."""
        is_engine = name == "engine"
        log = self.path("engine.log") if is_engine else self.work / f"{name}.log"
        with log.open("wb") as file:
            return subprocess.Popen(
                [sys.executable, *command],
                env={**os.environ, **environment},
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def record(self, name: str, interval: str) -> subprocess.Popen[bytes]:
        """The product's recorder."""
        path = self.path(f"{name}.jsonl")
        path.unlink(missing_ok=True)
        command = ["-m", "exporter", "record", "--output", str(path), "--nvml.interval", interval]
        return self.start(f"record_{name}", [*command, "--trace.path", str(self.trace)])


_ended: set[int] = set()


def stop(process: subprocess.Popen[bytes], patience_s: float = 20.0) -> None:
    """Ask it to end; then end what is left of its group."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            print("did not end when asked:", process.args, flush=True)
    if process.pid not in _ended:  # its number may be another's by now
        _ended.add(process.pid)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)


def wait_until(is_there: Callable[[], Any], timeout_s: float) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        if is_there():
            return True
        time.sleep(0.5)  # between two looks at another process
    return False
