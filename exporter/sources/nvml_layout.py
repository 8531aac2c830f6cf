"""Which GPU stands where, as the open NVML and the kernel driver list them; samples nothing."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pynvml

from exporter.sources.nvml_library import DRIVER_GONE

KERNEL_LIST = Path("/proc/driver/nvidia/gpus")
"""The driver's directory with one entry a GPU: an open NVML need not notice one that comes."""


class Layout(NamedTuple):
    """UUIDs by index, None for a GPU that does not answer; names in the kernel driver's list."""

    uuids: tuple[str | None, ...]
    kernel_names: frozenset[str]

    def has_changed_since(self, former: "Layout") -> bool:
        """Whether a GPU came, went or took another's place.

        One that answers no more is lost, not gone: that is another matter.
        """
        return (
            len(self.uuids) != len(former.uuids)
            or self.kernel_names != former.kernel_names
            or any(
                now is not None and now != before
                for now, before in zip(self.uuids, former.uuids, strict=True)
            )
        )


def read_layout(kernel_list: Path = KERNEL_LIST) -> Layout:
    """The layout now.

    Raises: pynvml.NVMLError: the driver went away.
    """
    uuids = tuple(_uuid_at(index) for index in range(pynvml.nvmlDeviceGetCount()))
    return Layout(uuids, frozenset(_names_in(kernel_list)))


def _uuid_at(index: int) -> str | None:
    try:
        uuid: str = pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(index))
    except pynvml.NVMLError as error:
        if error.value in DRIVER_GONE:
            raise
        return None
    return uuid


def _names_in(directory: Path) -> Iterable[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return ()
