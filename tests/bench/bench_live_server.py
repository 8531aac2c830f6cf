"""The live stream: bytes and CPU against full JSON, and what viewers cost the daemon.

Usage: python -m tests.bench.bench_live_server [--seconds S]
The machine is as busy as it gets, one engine a GPU and every figure moving: live_machine.py.
"""

import argparse
import http.client
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from exporter.clock import ManualClock
from exporter.pipeline.pipeline import Pipeline
from exporter.records.code import MISSING
from exporter.records.trace import TraceReading
from exporter.views.live.rows import METRICS
from exporter.web.live_feed import LiveFeed
from exporter.web.live_position import Position, Stream
from tests.bench.live_machine import INTERVAL_S, START_UNIX_NS, Machine
from tests.bench.peers import TICKS_PER_S
from tests.daemon import Daemon, running
from tests.live_client import Shown, Viewer, parsed

TICKS = 240
VIEWERS = 32
ROUNDS = 3
LIMIT_BYTES_PER_S = 4000
LIMIT_MEMORY_MB = 3.2
CHUNK_BYTES = 7  # of HTTP around each event
STREAM = Stream(METRICS.index("effective_pressure"), 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=15.0, help="length of a round with viewers"
    )
    arguments = parser.parse_args()
    bytes_per_s = encoding(64)
    encoding(512)
    memory_mb = viewers(arguments.seconds)
    if bytes_per_s > LIMIT_BYTES_PER_S or memory_mb > LIMIT_MEMORY_MB:
        raise SystemExit("above a limit")


def encoding(gpus: int) -> float:
    """Print what a tick takes; returns bytes a second and viewer."""
    clock = ManualClock(START_UNIX_NS)
    pipeline = Pipeline(clock, INTERVAL_S)
    feed = LiveFeed(INTERVAL_S, clock)
    position: Position | None = None
    shown = Shown()
    remember_ms: list[float] = []
    delta_ms: list[float] = []
    json_ms: list[float] = []
    delta_bytes, json_bytes, full_bytes = 0, 0, 0
    for records, reading in Machine(gpus).ticks(TICKS):
        pipeline.offer(TraceReading(records=records, lines={}, dropped_bytes=0, files=1))
        pipeline.offer(reading)
        view = pipeline.tick()
        with _timed(remember_ms):
            feed.observe(view)
        with _timed(delta_ms):
            made = feed.event(STREAM, position)
        assert made is not None
        event, position = made
        told = parsed(event)
        assert told is not None
        shown.apply(told)
        if told.name == "full":
            full_bytes = len(event)
        else:
            delta_bytes += len(event) + CHUNK_BYTES
        with _timed(json_ms):
            text = _full_json(shown)
        json_bytes += len(text) + CHUNK_BYTES
        clock.advance(INTERVAL_S)
    seconds = (TICKS - 1) * INTERVAL_S
    print(f"{gpus} GPUs x {gpus} engines, {TICKS} ticks of {INTERVAL_S} s, window 60s")
    bytes_per_s, json_bytes_per_s = delta_bytes / seconds, json_bytes / TICKS / INTERVAL_S
    print(
        f"  a viewer: {bytes_per_s / 1000:.2f} kB/s (limit at 64 GPUs 4), first event"
        f" {full_bytes / 1000:.1f} kB; as full JSON {json_bytes_per_s / 1000:.0f} kB/s:"
        f" {json_bytes_per_s / bytes_per_s:.0f} times as much"
    )
    ratio = statistics.median(json_ms) / statistics.median(delta_ms)
    print(
        f"  a tick, CPU: remembering {_figure(remember_ms)}, event {_figure(delta_ms)}, full JSON"
        f" {_figure(json_ms)}: {ratio:.1f} times as much"
    )
    return bytes_per_s


def viewers(seconds: float) -> float:
    """Print what 32 viewers cost the daemon that replays 64 GPUs; returns the memory in MB."""
    with tempfile.TemporaryDirectory() as directory:
        recording = Path(directory) / "busy.jsonl"
        recording.write_bytes(Machine(64).recording(60))
        with running("serve", "--replay", str(recording)) as daemon:
            daemon.wait_for(lambda samples: sum("gpu_up{" in name for name in samples) == 64)
            alone, watched, memory_mb, received = [], [], [], []
            time.sleep(seconds)  # the replay's first figures, not a synchronisation
            for _ in range(ROUNDS):
                before_kb = _resident_kb(daemon)
                alone.append(_cpu_ratio(daemon, seconds))
                with _looking(daemon) as counts:
                    watched.append(_cpu_ratio(daemon, seconds))
                    received.append(statistics.mean(counts()) / seconds)
                    memory_mb.append((_resident_kb(daemon) - before_kb) * 1024 / 1e6)
    print(f"the daemon with 64 GPUs and {VIEWERS} viewers, {ROUNDS} rounds of {seconds:g} s")
    print(
        f"  memory {max(memory_mb):+.2f} MB (limit 3.2, aim 1; each round"
        f" {', '.join(f'{mb:+.2f}' for mb in memory_mb)})"
    )
    cpu = statistics.median(watched) - statistics.median(alone)
    print(
        f"  CPU {100 * statistics.median(alone):.1f} % of a core alone,"
        f" {100 * statistics.median(watched):.1f} % with them: {100 * cpu / VIEWERS:.2f} % each"
    )
    print(
        f"  received {statistics.median(received) / 1000:.2f} kB/s a viewer after the first event"
    )
    return max(memory_mb)


@contextmanager
def _looking(daemon: Daemon) -> Iterator[Callable[[], list[int]]]:
    """32 viewers that read what comes; gives how many bytes each has had after its first event."""
    counts = [0] * VIEWERS
    with ExitStack() as stack:
        threads = []
        for number in range(VIEWERS):
            viewer = stack.enter_context(Viewer(daemon.address))

            def read(viewer: Viewer = viewer, number: int = number) -> None:
                try:
                    for block in viewer.blocks():
                        if not block.startswith(b"event: full"):
                            counts[number] += len(block) + 1 + CHUNK_BYTES
                except (OSError, ValueError, AttributeError, http.client.HTTPException):
                    return  # closed under it

            threads.append(threading.Thread(target=read, daemon=True))
            threads[-1].start()
        yield lambda: counts


def _full_json(shown: Shown) -> bytes:
    """What a server without deltas would send: everything, as numbers with names."""
    cells = [[None if code == MISSING else code / 1e4 for code in column] for column in shown.cells]
    everything = {
        "unix_ms": shown.unix_ms,
        "layout": shown.layout,
        "cells": cells,
        "state": shown.state,
        "marks": list(shown.marks.values()),
    }
    return json.dumps(everything, separators=(",", ":")).encode()


@contextmanager
def _timed(into_ms: list[float]) -> Iterator[None]:
    started_s = time.thread_time()
    yield
    into_ms.append(1000 * (time.thread_time() - started_s))


def _figure(times_ms: list[float]) -> str:
    p99_ms = statistics.quantiles(times_ms, n=100)[98]
    return f"{statistics.median(times_ms):.2f} ms (p99 {p99_ms:.2f})"


def _cpu_ratio(daemon: Daemon, seconds: float) -> float:
    before_s, started_s = _cpu_s(daemon), time.monotonic()
    time.sleep(seconds)
    return (_cpu_s(daemon) - before_s) / (time.monotonic() - started_s)


def _cpu_s(daemon: Daemon) -> float:
    text = Path(f"/proc/{daemon.process.pid}/stat").read_text()
    fields = text[text.rindex(")") + 2 :].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def _resident_kb(daemon: Daemon) -> int:
    status = Path(f"/proc/{daemon.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


if __name__ == "__main__":
    main()
