"""Reads of torch's CUDA allocator that need more than one attribute; torch is handed in."""

import sys
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

from exporter.plugin.facts import read


class Snapshot(NamedTuple):
    """From `torch.cuda.memory_snapshot()`, in bytes, of one device.

    `largest_free_block`: largest inactive block of the common pool (0: none); `private_pools`:
    segments of all other pools, which CUDA graphs make; `private_pools_allocated`: what of them is
    given to tensors.
    """

    largest_free_block: int
    private_pools: int
    private_pools_allocated: int


def take_snapshot(torch: ModuleType, device_index: int) -> Snapshot | None:
    """Walk the allocator's segments (1 to 2 ms); None while history is being recorded.

    With history on a snapshot copies stack traces and is slow.
    """
    if torch._C._cuda_isHistoryEnabled():
        return None
    largest = private = private_allocated = 0
    for segment in torch.cuda.memory_snapshot():
        if segment["device"] != device_index:
            continue
        if tuple(segment["segment_pool_id"]) != (0, 0):
            private += segment["total_size"]
            private_allocated += segment["allocated_size"]
            continue
        for block in segment["blocks"]:
            if block["state"] == "inactive" and block["size"] > largest:
                largest = block["size"]
    return Snapshot(largest, private, private_allocated)


def tensor_bytes(tensors: Iterable[object], device_index: int) -> int:
    """Bytes of the storages on that CUDA device behind `tensors`, each storage once."""
    storages: dict[int, int] = {}
    for tensor in _flat(tensors):
        device = tensor.device
        if device.type == "cuda" and device.index == device_index:
            storage = tensor.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


def is_asleep(worker: object) -> bool | None:
    """Whether sleep mode has taken memory away; None when this vLLM does not tell.

    Source: `CuMemAllocator.instance.pointer_to_data[…].is_asleep`.
    """
    if read(worker, "vllm_config.model_config.enable_sleep_mode") is not True:
        return False
    cumem = sys.modules.get("vllm.device_allocator.cumem")
    allocations = read(cumem, "CuMemAllocator.instance.pointer_to_data")
    if not isinstance(allocations, dict):
        return None
    states = [getattr(allocation, "is_asleep", None) for allocation in list(allocations.values())]
    return None if None in states else any(states)


def has_pluggable_allocator(worker: object, torch: ModuleType) -> bool:
    """Whether memory can come from elsewhere than torch's own allocator (sleep mode does it)."""
    return (
        read(worker, "vllm_config.model_config.enable_sleep_mode") is True
        or torch.cuda.memory.get_allocator_backend() == "pluggable"
    )


def _flat(tensors: Iterable[object]) -> Iterator[Any]:
    for tensor in tensors:
        if isinstance(tensor, (list, tuple)):
            yield from _flat(tensor)
        elif tensor is not None:
            yield tensor
