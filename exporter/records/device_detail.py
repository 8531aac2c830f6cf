"""What NVML says about each GPU besides its samples, lane by lane; knows no NVML calls."""

from typing import Literal

from msgspec import Struct

CounterName = Literal[
    "energy_joules",
    "pcie_replays",
    "ecc_corrected_volatile",
    "ecc_uncorrected_volatile",
    "ecc_corrected_aggregate",
    "ecc_uncorrected_aggregate",
    "nvlink_transmit_bytes",
    "nvlink_receive_bytes",
    "nvlink_crc_flit_errors",
    "nvlink_crc_data_errors",
    "nvlink_replay_errors",
    "nvlink_recovery_errors",
]


class DeviceDetail(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Figures of one GPU that change slowly or take the driver long; None is unknown.

    `bar1_…`: the window through which the host reaches device memory. `remapped_rows`: rows of
    memory that were replaced (correctable, uncorrectable); pending and failure are 0 or 1.
    `pcie_link_lanes` is the link's width. `nvlinks`: links by state (up, down). `counters`:
    cumulative since the driver was loaded (aggregate ones: for the board's life) by `CounterName`.
    """

    power_limit_watts: float | None = None
    bar1_total_bytes: int | None = None
    bar1_used_bytes: int | None = None
    remapped_rows: dict[str, int] | None = None
    pcie_link_generation: int | None = None
    pcie_link_max_generation: int | None = None
    pcie_link_lanes: int | None = None
    pcie_link_max_lanes: int | None = None
    nvlinks: dict[str, int] | None = None
    counters: dict[CounterName, float] = {}


class DetailReading(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag="detail", tag_field="type"
):
    """Details of the GPUs that could be read, by UUID; `capabilities` as in `DeviceReading`."""

    ts_unix_ns: int
    interval_s: float
    gpus: dict[str, DeviceDetail]
    capabilities: dict[str, bool] | None = None


class DeviceProfile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a GPU's own counters (NVML GPM) say of one window; None is unknown.

    Ratios of what the hardware can do at most: DRAM bandwidth, SMs that were busy, warps that were
    active, time in tensor operations. Bytes a second as seen from the GPU.
    """

    dram_bandwidth_utilization_ratio: float | None = None
    sm_utilization_ratio: float | None = None
    sm_occupancy_ratio: float | None = None
    tensor_utilization_ratio: float | None = None
    pcie_transmit_bytes_per_second: float | None = None
    pcie_receive_bytes_per_second: float | None = None
    nvlink_transmit_bytes_per_second: float | None = None
    nvlink_receive_bytes_per_second: float | None = None


class ProfileReading(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag="profile", tag_field="type"
):
    """Windows that ended at one moment, by UUID; a GPU whose window was empty is left out."""

    ts_unix_ns: int
    interval_s: float
    gpus: dict[str, DeviceProfile]
    capabilities: dict[str, bool] | None = None


class XidEvent(Struct, frozen=True, kw_only=True):
    """One error that the driver reported about a GPU: its Xid code."""

    uuid: str
    xid: int


class XidReading(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag="xid", tag_field="type"
):
    """Errors since the reading before, oldest first."""

    ts_unix_ns: int
    events: tuple[XidEvent, ...] = ()
    capabilities: dict[str, bool] | None = None


LaneReading = DetailReading | ProfileReading | XidReading
