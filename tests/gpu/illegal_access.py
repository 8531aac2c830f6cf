"""Makes the driver report an Xid error: a kernel of this process's own reads a wrong address.

Usage: python illegal_access.py. Only this process is harmed (Xid 31 or 13); nothing is reset.
"""

import ctypes
import sys
from collections.abc import Callable

KERNEL = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry wrong() {
    .reg .u64 %address;
    .reg .u32 %value;
    mov.u64 %address, 0xdead00000000;
    mov.u32 %value, 7;
    st.global.u32 [%address], %value;
    ret;
}
"""


def main() -> None:
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context, module, function = (
        ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    )  # fmt: skip
    steps: tuple[Callable[[], int], ...] = (
        lambda: cuda.cuInit(0),
        lambda: cuda.cuDeviceGet(ctypes.byref(device), 0),
        lambda: cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
        lambda: cuda.cuCtxSetCurrent(context),
        lambda: cuda.cuModuleLoadData(ctypes.byref(module), KERNEL),
        lambda: cuda.cuModuleGetFunction(ctypes.byref(function), module, b"wrong"),
        lambda: cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None),
    )
    for number, step in enumerate(steps):
        code = step()
        if code:
            sys.exit(f"step {number} failed with {code}")
    print("the kernel ended with", cuda.cuCtxSynchronize(), flush=True)  # 700, 715 or 719


if __name__ == "__main__":
    main()
