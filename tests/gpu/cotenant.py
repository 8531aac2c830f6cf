"""Another process on the GPU. Usage: python cotenant.py GIB AFTER_SECONDS FOR_SECONDS"""

import sys
import time


def main(gib: float, after_s: float, for_s: float) -> None:
    time.sleep(after_s)
    import torch  # type: ignore[import-not-found,unused-ignore]

    if not torch.cuda.is_available():
        return
    held = torch.empty(int(gib * 2**30), dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    print(time.time(), "holds", held.numel(), flush=True)
    time.sleep(for_s)
    print(time.time(), "ends", flush=True)


if __name__ == "__main__":
    main(*map(float, sys.argv[1:4]))
