"""A torch program that takes and gives back GPU memory in steps, computing in every other one.

Usage: python torch_load.py SECONDS. Prints each step: Unix time and the bytes that it holds.
"""

import sys
import time

import torch  # type: ignore[import-not-found,unused-ignore]

GIB = 2**30
STEPS_GIB = (2, 12, 5, 40, 0, 90, 7)
STEP_S = 6.0


def main(seconds: float) -> None:
    started_s = time.monotonic()
    matrix = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    step = 0
    while time.monotonic() < started_s + seconds:
        held = [
            torch.empty(GIB, dtype=torch.uint8, device="cuda")
            for _ in range(STEPS_GIB[step % len(STEPS_GIB)])
        ]
        torch.cuda.synchronize()
        print(time.time(), torch.cuda.memory_reserved(), flush=True)
        until_s = time.monotonic() + STEP_S
        while time.monotonic() < until_s:
            if step % 2:
                for _ in range(20):
                    matrix @ matrix
                torch.cuda.synchronize()
            else:
                time.sleep(0.1)
        held.clear()
        torch.cuda.empty_cache()
        step += 1


if __name__ == "__main__":
    main(float(sys.argv[1]))
