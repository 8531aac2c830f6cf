"""Families about how a GPU is connected, as NVML tells; knows no engines."""

from exporter.views.metrics.family import Subject
from exporter.views.metrics.gpu import DETAILS

GPU_LINKS = Subject(
    "GPU links",
    (
        DETAILS.gauge(
            "gpu_bar1_total_bytes",
            "Size of the window through which the host reaches device memory. Source: NVML BAR1 "
            "memory info.",
            lambda detail: detail.bar1_total_bytes,
        ),
        DETAILS.gauge(
            "gpu_bar1_used_bytes",
            "Part of gpu_bar1_total_bytes that is mapped. Source: NVML BAR1 memory info.",
            lambda detail: detail.bar1_used_bytes,
        ),
        DETAILS.gauge(
            "gpu_pcie_link_generation",
            "PCIe generation that the link runs at; lower while the GPU idles. Source: NVML.",
            lambda detail: detail.pcie_link_generation,
        ),
        DETAILS.gauge(
            "gpu_pcie_link_max_generation",
            "Highest PCIe generation of GPU and slot together. Source: NVML.",
            lambda detail: detail.pcie_link_max_generation,
        ),
        DETAILS.gauge(
            "gpu_pcie_link_lanes",
            "PCIe lanes that the link runs with. Source: NVML current PCIe link width.",
            lambda detail: detail.pcie_link_lanes,
        ),
        DETAILS.gauge(
            "gpu_pcie_link_max_lanes",
            "Most PCIe lanes of GPU and slot together. Source: NVML max PCIe link width.",
            lambda detail: detail.pcie_link_max_lanes,
        ),
        DETAILS.gauges(
            "gpu_nvlink_links",
            "NVLinks of the GPU by state: up or down. Source: NVML NVLink state; absent without.",
            "state",
            lambda detail: detail.nvlinks or {},
        ),
        DETAILS.counter(
            "gpu_nvlink_transmit_bytes_total",
            "Data sent over all NVLinks since the driver was loaded. Source: NVML field "
            "NVLINK_THROUGHPUT_DATA_TX.",
            lambda detail: detail.counters.get("nvlink_transmit_bytes"),
        ),
        DETAILS.counter(
            "gpu_nvlink_receive_bytes_total",
            "Data received over all NVLinks since the driver was loaded. Source: NVML field "
            "NVLINK_THROUGHPUT_DATA_RX.",
            lambda detail: detail.counters.get("nvlink_receive_bytes"),
        ),
    ),
)
