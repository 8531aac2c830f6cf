"""NVML calls of one GPU that take long or change slowly, and what they give; keeps no pace."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pynvml

from exporter.records.device_detail import CounterName, DeviceDetail
from exporter.sources.nvml_calls import Call, supported_calls
from exporter.sources.nvml_library import UNSUPPORTED
from exporter.sources.nvml_session import Handle

_MOST = (1 << 63) - 1  # NVML's "not available" is 2^64 − 1
_MOST_32 = (1 << 32) - 2  # and 2^32 − 1 in figures of that width
_ALL_LINKS = 0xFFFFFFFF  # scope of a field: the sum over all NVLinks
_KIB = 1024
_FIELD_UNSUPPORTED = UNSUPPORTED | {pynvml.NVML_ERROR_INVALID_ARGUMENT}  # unknown to this driver

_ECC_KINDS: tuple[tuple[CounterName, int, int], ...] = (
    (
        "ecc_corrected_volatile",
        pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED,
        pynvml.NVML_VOLATILE_ECC,
    ),
    (
        "ecc_uncorrected_volatile",
        pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
        pynvml.NVML_VOLATILE_ECC,
    ),
    (
        "ecc_corrected_aggregate",
        pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED,
        pynvml.NVML_AGGREGATE_ECC,
    ),
    (
        "ecc_uncorrected_aggregate",
        pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
        pynvml.NVML_AGGREGATE_ECC,
    ),
)
_NVLINK_FIELDS: tuple[tuple[CounterName, int, int], ...] = (
    ("nvlink_transmit_bytes", pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, _KIB),
    ("nvlink_receive_bytes", pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, _KIB),
    ("nvlink_crc_flit_errors", pynvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, 1),
    ("nvlink_crc_data_errors", pynvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL, 1),
    ("nvlink_replay_errors", pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, 1),
    ("nvlink_recovery_errors", pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL, 1),
)  # counter, field, and its unit


class DetailCalls:
    """The slow calls of one GPU. `errors` counts those that failed, and impossible figures."""

    def __init__(self, handle: Handle, errors: Counter[str]) -> None:
        self.energy = Call[int](errors, pynvml.nvmlDeviceGetTotalEnergyConsumption, handle)
        self.power_limit = Call[int](errors, pynvml.nvmlDeviceGetEnforcedPowerLimit, handle)
        self.bar1_memory = Call(errors, _bar1_memory, handle)
        self.ecc_errors = Call(errors, _ecc_errors, handle)
        self.remapped_rows = Call[tuple[int, int, int, int]](
            errors, pynvml.nvmlDeviceGetRemappedRows, handle
        )
        self.pcie_replays = Call[int](errors, pynvml.nvmlDeviceGetPcieReplayCounter, handle)
        self.pcie_generation = Call[int](errors, pynvml.nvmlDeviceGetCurrPcieLinkGeneration, handle)
        self.pcie_max_generation = Call[int](
            errors, pynvml.nvmlDeviceGetMaxPcieLinkGeneration, handle
        )
        self.pcie_lanes = Call[int](errors, pynvml.nvmlDeviceGetCurrPcieLinkWidth, handle)
        self.pcie_max_lanes = Call[int](errors, pynvml.nvmlDeviceGetMaxPcieLinkWidth, handle)
        self.nvlink_state = Call(errors, _nvlink_states, handle)
        self.nvlink_counters = Call(errors, _nvlink_counters, handle)
        self._calls: dict[str, Call[Any]] = {
            name: call for name, call in vars(self).items() if isinstance(call, Call)
        }
        self._errors = errors

    def capabilities(self) -> dict[str, bool]:
        """As of `GpuCalls`."""
        return supported_calls(self._calls)

    def read(self) -> DeviceDetail:
        """Make all calls.

        Raises: pynvml.NVMLError: the GPU is lost or the driver went away.
        """
        bar1 = self._bar1()
        rows = self.remapped_rows()
        limit_mw = self._valid(self.power_limit(), _MOST_32, "invalid_power_limit")
        return DeviceDetail(
            power_limit_watts=None if limit_mw is None else limit_mw / 1000,
            bar1_total_bytes=bar1[0] if bar1 else None,
            bar1_used_bytes=bar1[1] if bar1 else None,
            remapped_rows=None if rows is None else _named_rows(rows),
            pcie_link_generation=self._link(self.pcie_generation()),
            pcie_link_max_generation=self._link(self.pcie_max_generation()),
            pcie_link_lanes=self._link(self.pcie_lanes()),
            pcie_link_max_lanes=self._link(self.pcie_max_lanes()),
            nvlinks=self.nvlink_state(),
            counters=self._counters(),
        )

    def _counters(self) -> dict[CounterName, float]:
        raw: dict[CounterName, int | None] = {}
        raw["energy_joules"] = self.energy()
        raw["pcie_replays"] = self._valid(self.pcie_replays(), _MOST_32, "invalid_counter")
        raw.update(self.ecc_errors() or {})
        raw.update(self.nvlink_counters() or {})
        counters: dict[CounterName, float] = {}
        for name, count in raw.items():
            if self._valid(count, _MOST, "invalid_counter") is not None and count is not None:
                counters[name] = count / 1000 if name == "energy_joules" else count
        return counters

    def _bar1(self) -> tuple[int, int] | None:
        figures = self.bar1_memory()
        if figures is None or figures[1] <= figures[0] <= _MOST:
            return figures
        self._errors["invalid_bar1_memory"] += 1
        return None

    def _link(self, figure: int | None) -> int | None:
        """A PCIe generation or width; 0 is what parts without PCIe answer."""
        return self._valid(figure, 1024, "invalid_pcie_link") or None

    def _valid(self, figure: int | None, most: int, reason: str) -> int | None:
        if figure is None or 0 <= figure <= most:
            return figure
        self._errors[reason] += 1
        return None


def _named_rows(rows: tuple[int, int, int, int]) -> dict[str, int]:
    return dict(zip(("correctable", "uncorrectable", "pending", "failure"), rows, strict=True))


def _bar1_memory(handle: Handle) -> tuple[int, int]:
    memory = pynvml.nvmlDeviceGetBAR1MemoryInfo(handle)
    return memory.bar1Total, memory.bar1Used


def _ecc_errors(handle: Handle) -> dict[CounterName, int]:
    return {
        name: pynvml.nvmlDeviceGetTotalEccErrors(handle, kind, counter)
        for name, kind, counter in _ECC_KINDS
    }


def _nvlink_states(handle: Handle) -> dict[str, int]:
    (count,) = _fields(handle, [pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT])
    if not count:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    states = [pynvml.nvmlDeviceGetNvLinkState(handle, link) for link in range(count)]
    return {"up": sum(states), "down": count - sum(states)}


def _nvlink_counters(handle: Handle) -> dict[CounterName, int]:
    counts = _fields(handle, [(field, _ALL_LINKS) for _name, field, _unit in _NVLINK_FIELDS])
    known = {
        name: count * unit
        for (name, _field, unit), count in zip(_NVLINK_FIELDS, counts, strict=True)
        if count is not None
    }
    if not known:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return known


def _fields(handle: Handle, fields: Sequence[int | tuple[int, int]]) -> list[int | None]:
    """Values of fields (nvmlDeviceGetFieldValues); None for one that this GPU does not have.

    Raises: pynvml.NVMLError: of the first field that failed otherwise.
    """
    numbers: list[int | None] = []
    for answer in pynvml.nvmlDeviceGetFieldValues(handle, fields):
        if answer.nvmlReturn not in (pynvml.NVML_SUCCESS, *_FIELD_UNSUPPORTED):
            raise pynvml.NVMLError(answer.nvmlReturn)
        has_it = answer.nvmlReturn == pynvml.NVML_SUCCESS
        numbers.append(_field_number(answer) if has_it else None)
    return numbers


def _field_number(answer: Any) -> int:  # noqa: ANN401 (pynvml has no types)
    value = answer.value
    number: int = {
        pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: value.uiVal,
        pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: value.ulVal,
        pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: value.sllVal,
    }.get(answer.valueType, value.ullVal)
    return number
