"""Engines on MIG devices: their ledger is there, and nothing is counted twice."""

from exporter.clock import ManualClock
from exporter.pipeline import Pipeline
from exporter.records.device import (
    Device,
    DeviceFacts,
    DeviceMemory,
    DeviceReading,
    DeviceSample,
    MigDevice,
    ProcessMemory,
)
from exporter.records.ledger import Ledger
from exporter.records.view import View
from tests.readings import START_UNIX_NS, UUID, blocks, device_reading, facts, kv, torch
from tests.readings import trace_reading as trace

BODY = "11111111-2222-3333-4444-555555555555"
MIG = f"MIG-{BODY}"
WORKER = ProcessMemory(pid=20, used_bytes=300)
OTHER = ProcessMemory(pid=99, used_bytes=40)


def mig(uuid: str = MIG, is_up: bool = True) -> MigDevice:
    """A MIG device of 500 bytes: 30 reserved, 310 used, 300 of these by the worker."""
    memory = DeviceMemory(total_bytes=500, used_bytes=310, free_bytes=160, reserved_bytes=30)
    return MigDevice(
        uuid=uuid,
        gpu_instance_id=2,
        compute_instance_id=0,
        profile="3g.71gb",
        is_up=is_up,
        memory=memory if is_up else None,
        processes=(WORKER,) if is_up else None,
    )


def reading(*migs: MigDevice) -> DeviceReading:
    """A GPU of 1000 bytes, 360 used: the worker's 300, another's 40 and 20 of nobody."""
    memory = DeviceMemory(total_bytes=1000, used_bytes=360, free_bytes=540, reserved_bytes=100)
    sample = DeviceSample(memory=memory, processes=(WORKER, OTHER), mig=migs)
    return device_reading(Device(facts=DeviceFacts(index=3, uuid=UUID), sample=sample))


def view(*readings: DeviceReading, uuid: str = f"GPU-{BODY}") -> View:
    """With an engine whose worker has 250 bytes from the driver, 200 in tensors, on `uuid`."""
    pipeline = Pipeline(ManualClock(START_UNIX_NS), 0.5)
    records = (
        facts(),
        kv(blocks=blocks(active=25)),
        torch(allocated_bytes=200, reserved_bytes=250, uuid=uuid, kv_pool_bytes=101),
    )
    for each in readings:
        pipeline.offer(each)
        pipeline.tick()
    pipeline.offer(trace(*records))
    pipeline.offer(readings[-1])
    return pipeline.tick()


def ledger_of(view: View, mig_uuid: str) -> Ledger:
    (gpu,) = view.devices
    assert gpu.mig is not None
    ledger = gpu.mig[mig_uuid].ledger
    assert ledger is not None
    return ledger


def test_an_engine_is_told_apart_on_its_mig_device() -> None:
    owners = ledger_of(view(reading(mig())), MIG).owners_bytes
    assert owners["kv_active"] == 25
    assert owners["allocator_slack"] == 50
    assert owners["non_torch"] == 50
    assert owners["unattributed"] == 10
    assert sum(owners.values()) == 500


def test_a7_on_the_gpu_itself_it_is_one_owner() -> None:
    (gpu,) = view(reading(mig())).devices
    assert gpu.ledger is not None
    assert gpu.ledger.owners_bytes == {
        "driver_reserved": 100,
        "free": 540,
        "engine_unsplit": 300,
        "other_processes": 40,
        "unattributed": 20,
    }


def test_a_worker_has_the_index_of_its_gpu_and_nvmls_uuid() -> None:
    (rank,) = view(reading(mig())).ranks
    assert rank.device == 3
    assert rank.torch.uuid == MIG


def test_effective_pressure_of_the_gpu_is_that_of_its_fullest_mig_device() -> None:
    (gpu,) = view(reading(mig("MIG-empty"), mig())).devices
    assert gpu.effective_pressure_ratio == 0.25


def test_a_mig_device_that_does_not_answer_has_no_ledger() -> None:
    (gpu,) = view(reading(mig()), reading(mig(is_up=False))).devices
    assert gpu.mig is not None
    assert gpu.mig[MIG].ledger is None


def test_a_gpu_without_mig_devices_has_none() -> None:
    (gpu,) = view(reading(mig()), reading(), uuid=UUID).devices
    assert gpu.mig is None
    assert gpu.ledger is not None
    assert gpu.ledger.owners_bytes["kv_active"] == 25
