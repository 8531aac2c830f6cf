"""Families about MIG devices, as NVML tells; their bytes are also in those of their GPU."""

from collections.abc import Iterator
from typing import NamedTuple

from exporter.records.device import MigDevice
from exporter.records.view import MigView, View
from exporter.views.metrics.family import LabelValues, Subject
from exporter.views.metrics.gpu import GPUS
from exporter.views.metrics.scope import Scope


class Mig(NamedTuple):
    """A MIG device, and what is worked out about it."""

    device: MigDevice
    view: MigView


def _migs(view: View) -> Iterator[tuple[LabelValues, Mig]]:
    for values, gpu in GPUS.members(view):
        if gpu.sample is None or gpu.mig is None:
            continue
        for device in gpu.sample.mig:
            labels = (device.uuid, str(device.gpu_instance_id), device.profile)
            yield (*values, *labels), Mig(device, gpu.mig[device.uuid])


MIGS = Scope((*GPUS.labels, "mig_uuid", "gpu_instance_id", "mig_profile"), _migs)
MIG_MEMORY = MIGS.part(lambda mig: mig.device.memory)
MIG_LEDGERS = MIGS.part(lambda mig: mig.view.ledger)

GPU_MIG = Subject(
    "MIG devices",
    (
        MIGS.info(
            "gpu_mig_info",
            "A MIG device of the GPU, value 1. Source: NVML.",
            {"compute_instance_id": lambda mig: mig.device.compute_instance_id},
        ),
        MIGS.gauge(
            "gpu_mig_up",
            "1 when NVML answers for this MIG device, else 0; one that was taken away is absent.",
            lambda mig: mig.device.is_up,
        ),
        MIG_MEMORY.gauge(
            "gpu_mig_memory_total_bytes",
            "Memory of the MIG device, once for each GPU instance: compute instances share it. It "
            "is part of gpu_memory_total_bytes. Source: NVML memory info.",
            lambda memory: memory.total_bytes,
        ),
        MIG_MEMORY.gauge(
            "gpu_mig_memory_used_bytes",
            "Memory allocated on the MIG device. Source: NVML memory info.",
            lambda memory: memory.used_bytes,
        ),
        MIG_MEMORY.gauge(
            "gpu_mig_memory_free_bytes",
            "Memory that can still be allocated on the MIG device. Source: NVML memory info.",
            lambda memory: memory.free_bytes,
        ),
        MIG_MEMORY.gauge(
            "gpu_mig_memory_reserved_bytes",
            "Memory of the MIG device that driver and firmware keep. Source: NVML memory info v2.",
            lambda memory: memory.reserved_bytes,
        ),
        MIG_LEDGERS.gauges(
            "gpu_mig_memory_ledger_bytes",
            "gpu_memory_ledger_bytes of the MIG device: an engine on one is told apart here, and "
            "is engine_unsplit in the ledger of the GPU. Source: NVML memory info and process "
            "lists, trace.",
            "owner",
            lambda ledger: ledger.owners_bytes,
        ),
        MIGS.counters(
            "gpu_mig_memory_conflicts_total",
            "gpu_memory_conflicts_total of the MIG device. Source: NVML process lists, trace.",
            "kind",
            lambda mig: mig.view.conflicts or {},
        ),
    ),
)
