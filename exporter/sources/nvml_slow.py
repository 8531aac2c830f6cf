"""The slow lane of NVML: details of each GPU every few seconds, on a thread of their own.

Energy alone takes the driver 3 ms and sometimes 16: no tick of the fast lane waits for it, and a
call that hangs here leaves memory and processes as they are.
"""

from collections import Counter
from collections.abc import Mapping

import pynvml

from exporter.clock import Clock
from exporter.records.device_detail import DetailReading, DeviceDetail
from exporter.sources.nvml_calls import CapabilityChanges
from exporter.sources.nvml_detail_calls import DetailCalls
from exporter.sources.nvml_library import error_reason
from exporter.sources.nvml_session import Guest, NvmlSession

DETAIL_INTERVAL_S = 5.0


class NvmlSlowSource:
    """Reads details through handles that the `nvml` source opened; without them it has nothing."""

    name = "nvml_slow"
    interval_s = 1.0  # so that it lets go soon when it must

    def __init__(self, session: NvmlSession, clock: Clock) -> None:
        self._errors: Counter[str] = Counter()
        self._guest = Guest(session, self._errors, self._forget)
        self._clock = clock
        self._calls: dict[str, DetailCalls] = {}
        self._capabilities = CapabilityChanges()
        self._due_s = 0.0

    @property
    def errors(self) -> Mapping[str, int]:
        """Failed calls by NVML error, figures that cannot be as ``invalid_…``."""
        return self._errors

    def read(self) -> DetailReading | None:
        """Read all GPUs when it is time; None: it is not, or no GPU is open."""
        handles = self._guest.handles()
        now_s = self._clock.monotonic()
        if handles is None or now_s < self._due_s:
            return None
        self._due_s = now_s + DETAIL_INTERVAL_S
        ts_unix_ns = self._clock.unix_ns()
        gpus: dict[str, DeviceDetail] = {}
        for uuid, handle in handles.items():
            if uuid not in self._calls:
                self._calls[uuid] = DetailCalls(handle, self._errors)
            try:
                gpus[uuid] = self._calls[uuid].read()
            except pynvml.NVMLError as error:  # lost: the fast lane says so and opens it anew
                self._errors[error_reason(error)] += 1
        return DetailReading(
            ts_unix_ns=ts_unix_ns,
            interval_s=DETAIL_INTERVAL_S,
            gpus=gpus,
            capabilities=self._capabilities.changed(
                calls.capabilities() for calls in self._calls.values()
            ),
        )

    def close(self) -> None:
        """Let go of NVML."""
        self._guest.leave()

    def _forget(self) -> None:
        self._calls.clear()
        self._due_s = 0.0
