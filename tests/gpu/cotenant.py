"""Another process on a GPU. Usage: python cotenant.py GIB AFTER_SECONDS FOR_SECONDS [GPU]"""

import sys
import time


def main(gib: float, after_s: float, for_s: float, gpu: float = 0) -> None:
    """Hold memory of torch's device `gpu`; a context on device 0 comes with it."""
    time.sleep(after_s)
    import torch  # type: ignore[import-not-found,unused-ignore]

    if not torch.cuda.is_available():
        return
    held = torch.empty(int(gib * 2**30), dtype=torch.uint8, device=f"cuda:{int(gpu)}")
    torch.cuda.synchronize()
    print(time.time(), "holds", held.numel(), flush=True)
    time.sleep(for_s)
    print(time.time(), "ends", flush=True)


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
