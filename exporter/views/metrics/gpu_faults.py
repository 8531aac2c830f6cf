"""Families about faults of a GPU and its links, as NVML tells; knows no engines."""

from collections.abc import Mapping

from exporter.records.device_detail import CounterName, DeviceDetail
from exporter.views.metrics.family import Subject
from exporter.views.metrics.gpu import DETAILS, GPUS

ECC_ERRORS: Mapping[str, CounterName] = {
    "corrected_volatile": "ecc_corrected_volatile",
    "uncorrected_volatile": "ecc_uncorrected_volatile",
    "corrected_aggregate": "ecc_corrected_aggregate",
    "uncorrected_aggregate": "ecc_uncorrected_aggregate",
}
NVLINK_ERRORS: Mapping[str, CounterName] = {
    "crc_flit": "nvlink_crc_flit_errors",
    "crc_data": "nvlink_crc_data_errors",
    "replay": "nvlink_replay_errors",
    "recovery": "nvlink_recovery_errors",
}


def _counts(detail: DeviceDetail, names: Mapping[str, CounterName]) -> dict[str, float | None]:
    return {label: detail.counters.get(name) for label, name in names.items()}


GPU_FAULTS = Subject(
    "GPU faults",
    (
        GPUS.counters(
            "gpu_xid_errors_total",
            "Errors that the driver reported since the exporter started, by Xid code; a code that "
            "never came is absent. Source: NVML events.",
            "xid",
            lambda gpu: gpu.xid_errors or {},
        ),
        DETAILS.counters(
            "gpu_ecc_errors_total",
            "Memory errors by kind: volatile ones since the driver was loaded, aggregate ones in "
            "the life of the board; each volatile one is also among the aggregate. Source: NVML "
            "total ECC errors; absent without ECC.",
            "kind",
            lambda detail: _counts(detail, ECC_ERRORS),
        ),
        DETAILS.gauges(
            "gpu_remapped_rows",
            "Rows of memory that were replaced after correctable or uncorrectable errors; pending "
            "is 1 when a replacement awaits a reset of the GPU, failure is 1 when one failed. "
            "Source: NVML remapped rows.",
            "kind",
            lambda detail: detail.remapped_rows or {},
        ),
        DETAILS.counter(
            "gpu_pcie_replays_total",
            "PCIe packets that were sent again. Source: NVML PCIe replay counter.",
            lambda detail: detail.counters.get("pcie_replays"),
        ),
        DETAILS.counters(
            "gpu_nvlink_errors_total",
            "Errors on NVLinks by kind, all links together. Source: NVML NVLink error counts; "
            "absent without NVLink.",
            "kind",
            lambda detail: _counts(detail, NVLINK_ERRORS),
        ),
    ),
)
