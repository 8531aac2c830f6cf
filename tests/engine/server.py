"""A whole vLLM server on CPU as a process of its own."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tests.engine.run_llm import ENVIRONMENT

START_TIMEOUT_S = 120


class Server:
    """vLLM's OpenAI server with the plugin, its trace beside it; `parallel`: more options."""

    def __init__(
        self, model: Path, directory: Path, parallel: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.trace = directory / "trace"
        self.log = directory / "log"
        options = {
            "--model": str(model),
            "--served-model-name": "served",
            "--load-format": "dummy",
            "--dtype": "bfloat16",
            "--max-model-len": "512",
            "--block-size": "32",
            "--num-gpu-blocks-override": "40",
            "--max-num-seqs": "16",
            "--host": "127.0.0.1",
            "--port": str(port),
            **parallel,
        }
        environment = {k: v for k, v in ENVIRONMENT.items() if "MULTIPROCESSING" not in k}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--enforce-eager"]
                + [word for pair in options.items() for word in pair],
                env={
                    **os.environ,
                    **environment,
                    "VLLM_MEMORY_TRACE_DIR": str(self.trace),
                    "VLLM_MEMORY_TRACE_REPLICA": "api",
                },
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def wait(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Until it answers."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            try:
                urllib.request.urlopen(f"{self.url}/health", timeout=1).close()
            except OSError:
                time.sleep(0.2)  # between attempts to connect to a server that is starting
            else:
                return
        raise TimeoutError(self.log.read_text()[-3000:])

    def complete(self, prompt: list[int], length: int) -> None:
        """One request, to its end."""
        body = {
            "model": "served",
            "prompt": prompt,
            "max_tokens": length,
            "temperature": 0,
            "ignore_eos": True,
        }
        request = urllib.request.Request(
            f"{self.url}/v1/completions",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        urllib.request.urlopen(request, timeout=60).close()

    def metric(self, name: str, engine: int = 0) -> float:
        """The value of one of vLLM's own counters."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        labels = rf'[^}}]*engine="{engine}"[^}}]*'
        (value,) = re.findall(rf"^vllm:{name}{{{labels}}} (\S+)$", text, re.MULTILINE)
        return float(value)

    def stop(self) -> None:
        """As Kubernetes does it."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
