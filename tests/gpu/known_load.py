"""A torch program whose traffic is known. Usage: python known_load.py PHASE:SECONDS ...

Phases: idle, copy (within the GPU), to_gpu, from_gpu (pinned memory), matmul, to_peer (GPU 0 to 1).
Prints a JSON object a phase: Unix times of begin and end, and bytes a second by CUDA events: a copy
within the GPU reads and writes each byte, so its traffic is twice what it copies.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

GIB = 2**30


def main(phases: list[str]) -> None:
    moves = {} if {phase.partition(":")[0] for phase in phases} <= {"idle"} else _moves()
    for phase in phases:
        name, _, seconds = phase.partition(":")
        began_s = time.time()
        rate = None
        if name in moves:
            rate = _repeat(moves[name], float(seconds))
        else:
            time.sleep(float(seconds))
        told = {"phase": name, "began": began_s, "ended": time.time(), "bytes_per_second": rate}
        print(json.dumps(told), flush=True)


def _moves() -> dict[str, tuple[Callable[[], Any], int]]:
    """Name → what to repeat, and the bytes of traffic of one time."""
    import torch  # type: ignore[import-not-found,unused-ignore]

    source = torch.ones(4 * GIB, dtype=torch.uint8, device="cuda:0")
    target = torch.empty_like(source)
    part = source[:GIB]
    host = torch.ones(GIB, dtype=torch.uint8).pin_memory()
    matrix = torch.randn(8192, 8192, device="cuda:0", dtype=torch.bfloat16)
    moves: dict[str, tuple[Callable[[], Any], int]] = {
        "copy": (lambda: target.copy_(source, non_blocking=True), 2 * source.numel()),
        "to_gpu": (lambda: part.copy_(host, non_blocking=True), host.numel()),
        "from_gpu": (lambda: host.copy_(part, non_blocking=True), host.numel()),
        "matmul": (lambda: matrix @ matrix, 0),
    }
    if torch.cuda.device_count() > 1:
        peer = torch.empty_like(source, device="cuda:1")
        moves["to_peer"] = (lambda: peer.copy_(source, non_blocking=True), source.numel())
    return moves


def _repeat(move: tuple[Callable[[], Any], int], seconds: float) -> float:
    import torch

    act, size = move
    times_s, moved = 0.0, 0
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(20):
            act()
        end.record()
        torch.cuda.synchronize()
        times_s += begin.elapsed_time(end) / 1000
        moved += 20 * size
    return moved / times_s


if __name__ == "__main__":
    main(sys.argv[1:])
