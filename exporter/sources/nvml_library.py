"""Opens and closes libnvidia-ml and says what its failures mean; knows no figures."""

import _ctypes
from contextlib import suppress

import pynvml

from exporter.errors import SourceUnavailable

DRIVER_GONE = frozenset(
    {
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    }
)
"""Codes after which no call works until the library is initialised again."""

GPU_GONE = frozenset(
    {
        pynvml.NVML_ERROR_GPU_IS_LOST,
        pynvml.NVML_ERROR_GPU_NOT_FOUND,
        pynvml.NVML_ERROR_RESET_REQUIRED,
    }
)
"""Codes after which no call works for this GPU, while others go on."""

UNSUPPORTED = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    }
)
"""Codes that a call keeps answering on this GPU with this driver."""

_REASONS: dict[int, str] = {
    getattr(pynvml, constant): constant.removeprefix("NVML_ERROR_").lower()
    for constant in dir(pynvml)
    if constant.startswith("NVML_ERROR_")
}

_CONTAINER = "give the container the NVIDIA runtime (docker --gpus all, runtimeClassName: nvidia)"
_TEXTS = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
        "libnvidia-ml.so.1 cannot be loaded: no NVIDIA driver in this machine or container",
        f"install the driver, {_CONTAINER}, or pass --no-nvml",
    ),
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: (
        "the NVIDIA kernel driver is not loaded or not visible here",
        f"load it (modprobe nvidia), {_CONTAINER}, or pass --no-nvml",
    ),
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "libnvidia-ml and the loaded NVIDIA kernel driver have different versions",
        "load the new kernel driver (or reboot) and restart containers that hold the old library",
    ),
    pynvml.NVML_ERROR_NO_PERMISSION: (
        "this user has no access to the NVIDIA driver",
        "allow it to read and write /dev/nvidiactl and /dev/nvidia*, or pass --no-nvml",
    ),
    pynvml.NVML_ERROR_UNKNOWN: (
        "the NVIDIA driver answers every call with an unknown error",
        "if it stays, restart the container (it may have lost its devices), look for Xid in dmesg",
    ),
}


def error_reason(error: pynvml.NVMLError) -> str:
    """The snake_case word of an NVML error (``gpu_is_lost``), of bounded number."""
    return _REASONS.get(error.value, "unrecognised_error")


def unavailable(error: pynvml.NVMLError) -> SourceUnavailable:
    """An error that leaves no GPU readable, with what the operator can do about it."""
    detail, fix = _TEXTS.get(error.value, (f"NVML cannot be read: {error}", ""))
    return SourceUnavailable(error_reason(error), detail, fix)


def no_gpu() -> SourceUnavailable:
    """The driver works and lists no GPU (nvmlDeviceGetCount = 0)."""
    return SourceUnavailable(
        "no_gpu",
        "the NVIDIA driver works but shows no GPU",
        "compare with nvidia-smi -L; in a container set NVIDIA_VISIBLE_DEVICES; or pass --no-nvml",
    )


def released() -> SourceUnavailable:
    """The operator had all handles let go."""
    return SourceUnavailable(
        "released",
        "all handles of the NVIDIA driver are let go, as SIGUSR1 asked",
        "send SIGUSR1 again to take them up",
        backs_off=False,
    )


def shut_down() -> None:
    """End the use of NVML (nvmlShutdown); never fails."""
    with suppress(pynvml.NVMLError):
        pynvml.nvmlShutdown()


def unload() -> None:
    """Drop the library itself, so that the next initialisation loads the one that is on disk.

    After a driver upgrade the one in memory belongs to the driver before, and never fits again.
    pynvml keeps it in globals and has no function for this (13.615).
    """
    library = pynvml.nvmlLib
    pynvml._nvmlGetFunctionPointer_cache.clear()
    pynvml.nvmlLib = None
    if library is not None:
        _ctypes.dlclose(library._handle)
