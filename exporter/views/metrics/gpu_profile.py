"""Families of GPM, the GPU's own counters; only with --nvml.gpm."""

from exporter.views.metrics.family import Subject
from exporter.views.metrics.gpu import GPUS

PROFILES = GPUS.part(lambda gpu: gpu.profile)

GPU_PROFILE = Subject(
    "GPU profile (--nvml.gpm)",
    (
        PROFILES.gauge(
            "gpu_dram_bandwidth_utilization_ratio",
            "Bandwidth of device memory that was used, of the most that it has, over 1 s. Source: "
            "NVML GPM, DRAM_BW_UTIL.",
            lambda profile: profile.dram_bandwidth_utilization_ratio,
        ),
        PROFILES.gauge(
            "gpu_sm_utilization_ratio",
            "Streaming multiprocessors that were busy, of all, over 1 s. Source: NVML GPM, "
            "SM_UTIL.",
            lambda profile: profile.sm_utilization_ratio,
        ),
        PROFILES.gauge(
            "gpu_sm_occupancy_ratio",
            "Warps that were active, of the most that fit, over 1 s. Source: NVML GPM, "
            "SM_OCCUPANCY.",
            lambda profile: profile.sm_occupancy_ratio,
        ),
        PROFILES.gauge(
            "gpu_tensor_utilization_ratio",
            "Share of 1 s in which tensor cores worked. Source: NVML GPM, ANY_TENSOR_UTIL.",
            lambda profile: profile.tensor_utilization_ratio,
        ),
        PROFILES.gauge(
            "gpu_pcie_transmit_bytes_per_second",
            "What the GPU sent over PCIe, over 1 s. Source: NVML GPM, PCIE_TX_PER_SEC.",
            lambda profile: profile.pcie_transmit_bytes_per_second,
        ),
        PROFILES.gauge(
            "gpu_pcie_receive_bytes_per_second",
            "What the GPU received over PCIe, over 1 s. Source: NVML GPM, PCIE_RX_PER_SEC.",
            lambda profile: profile.pcie_receive_bytes_per_second,
        ),
        PROFILES.gauge(
            "gpu_nvlink_transmit_bytes_per_second",
            "What the GPU sent over all NVLinks, over 1 s. Source: NVML GPM, "
            "NVLINK_TOTAL_TX_PER_SEC.",
            lambda profile: profile.nvlink_transmit_bytes_per_second,
        ),
        PROFILES.gauge(
            "gpu_nvlink_receive_bytes_per_second",
            "What the GPU received over all NVLinks, over 1 s. Source: NVML GPM, "
            "NVLINK_TOTAL_RX_PER_SEC.",
            lambda profile: profile.nvlink_receive_bytes_per_second,
        ),
    ),
)
