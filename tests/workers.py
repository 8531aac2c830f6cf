"""A GPU of 1000 bytes with an engine's worker and another process."""

from typing import Any

from msgspec.structs import replace

from exporter.analysis.ledger import Ledgers, ledgers
from exporter.analysis.worker import Worker
from exporter.records.device import DeviceMemory, DeviceSample, ProcessMemory
from exporter.records.ledger import Ledger
from tests.readings import UUID, blocks, facts, kv, torch

WORKER_PID, OTHER_PID = 20, 77


def sample(
    processes: dict[int, int | None] | None = None, used_bytes: int = 720, **fields: Any
) -> DeviceSample:
    """100 bytes are the driver's; the worker holds 600 and the other process 90."""
    given = {WORKER_PID: 600, OTHER_PID: 90} if processes is None else processes
    memory = DeviceMemory(
        total_bytes=1000, used_bytes=used_bytes, free_bytes=900 - used_bytes, reserved_bytes=100
    )
    rows = tuple(ProcessMemory(pid=pid, used_bytes=used) for pid, used in given.items())
    return DeviceSample(**{"memory": memory, "processes": rows, **fields})


def worker(host_pid: int | None = WORKER_PID, **changes: Any) -> Worker:
    """Reserves 500 of its 600 bytes; a pool of 101 KV blocks of 2 bytes, 25 of them active.

    `changes` are fields of `Worker` or, where it has none of that name, of its torch record.
    """
    figures = {
        "reserved_bytes": 500,
        "allocated_bytes": 420,
        "weights_bytes": 150,
        "kv_pool_bytes": 202,
        "graph_pool_bytes": 30,
        "graph_pool_allocated_bytes": 10,
    }
    of_worker = {name: changes.pop(name) for name in list(changes) if name in FIELDS}
    whole = Worker(
        replica="node-1",
        engine="0",
        torch=torch(**{**figures, **changes}),
        torch_age_intervals=0.4,
        kv=kv(blocks=blocks(25, cached=30)),
        kv_age_intervals=0.7,
        facts=facts(num_gpu_blocks=101),
        host_pid=host_pid,
    )
    return replace(whole, **of_worker)


FIELDS = frozenset(Worker.__struct_fields__)


def split(gpu: DeviceSample, *workers: Worker) -> Ledgers:
    """The ledgers of a machine with this one GPU."""
    return ledgers({UUID: gpu}, workers)


def ledger(gpu: DeviceSample, *workers: Worker) -> Ledger:
    """The ledger of this one GPU."""
    return split(gpu, *workers).by_uuid[UUID]
