"""Serves what real vLLM servers said at /metrics, one path each, with histograms that go on."""

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path

SAMPLES = Path(__file__).parents[1] / "samples"
_HISTOGRAM = re.compile(r"^(vllm:(?:\w+_seconds))_count(\{.*\}) (\S+)$", re.MULTILINE)
_BOUNDS = ("0.1", "2.5", "30.0", "+Inf")


def old_names(text: str) -> str:
    """The same server as versions told it that had no reasons and other names."""
    kept = (line for line in text.splitlines(True) if "waiting_by_reason" not in line)
    return (
        "".join(kept)
        .replace("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
        .replace("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds")
    )


def with_observations(text: str, more: int) -> str:
    """Histograms with `more` observations and with buckets: all lie between 0.1 and 2.5 s.

    The samples have no buckets of their own.
    """

    def parts(match: re.Match[str]) -> str:
        name, labels, told = match[1], match[2], float(match[3]) + more
        buckets = [
            f'{name}_bucket{labels[:-1]},le="{bound}"}} {0 if bound == "0.1" else told}'
            for bound in _BOUNDS
        ]
        return "\n".join([*buckets, f"{name}_count{labels} {told}"])

    return _HISTOGRAM.sub(parts, text)


def pods(uuids: Sequence[str]) -> str:
    """What an exporter on the node tells of pods: all these GPUs are of one."""
    return "".join(
        f'gpu_pod_info{{uuid="{uuid}",namespace="serving",pod="blue-0",container="vllm"}} 1\n'
        for uuid in uuids
    )


@contextmanager
def vllm_server(uuids: Sequence[str]) -> Iterator[str]:
    """Servers under /new, /pair and /old of the address; each scrape finds one more request.

    Under /pods the pod that has the GPUs `uuids`.
    """
    busy = (SAMPLES / "vllm_0.30.0_busy.txt").read_text()
    texts = {
        "/new": busy,
        "/pair": (SAMPLES / "vllm_0.30.0_two_engines.txt").read_text(),
        "/old": old_names(busy),
        "/pods": pods(uuids),
    }
    scrapes = {path: count(1) for path in texts}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = with_observations(texts[self.path], next(scrapes[self.path])).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, name="vllm-server")
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
