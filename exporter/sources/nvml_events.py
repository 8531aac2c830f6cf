"""Xid errors that the driver reports (NVML's event API), on a thread of their own; counts none.

Each GPU has an event set of its own, so that one that is lost keeps no other's errors back.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress

import pynvml

from exporter.clock import Clock
from exporter.records.device_detail import XidEvent, XidReading
from exporter.sources.nvml_calls import CapabilityChanges
from exporter.sources.nvml_library import UNSUPPORTED, error_reason
from exporter.sources.nvml_session import Guest, Handle, NvmlSession

_WAIT_MS = 1  # events queue in the driver: this only fetches those that are there
_MOST_EVENTS = 1000  # of one GPU in one read; the rest comes with the next

EventSet = object  # pynvml's nvmlEventSet_t


class NvmlEventsSource:
    """Fetches Xid errors of the GPUs that the `nvml` source opened; knows those from then on."""

    name = "nvml_events"
    interval_s = 1.0

    def __init__(self, session: NvmlSession, clock: Clock) -> None:
        self._errors: Counter[str] = Counter()
        self._guest = Guest(session, self._errors, self._forget)
        self._clock = clock
        self._sets: dict[str, EventSet | None] = {}  # by UUID; None: this GPU reports none
        self._capabilities = CapabilityChanges()

    @property
    def errors(self) -> Mapping[str, int]:
        """Failed calls by NVML error."""
        return self._errors

    def read(self) -> XidReading | None:
        """Errors since the last read; None: there are none, or no GPU is open."""
        handles = self._guest.handles()
        if handles is None:
            return None
        for uuid, handle in handles.items():
            if uuid not in self._sets:
                self._listen(uuid, handle)
        events = tuple(
            XidEvent(uuid=uuid, xid=xid)
            for uuid, event_set in self._sets.items()
            if event_set is not None
            for xid in self._fetch(event_set)
        )
        capabilities = self._capabilities.changed(
            {"xid_events": event_set is not None} for event_set in self._sets.values()
        )
        if not events and capabilities is None:
            return None
        return XidReading(
            ts_unix_ns=self._clock.unix_ns(), events=events, capabilities=capabilities
        )

    def close(self) -> None:
        """Let go of the event sets and of NVML."""
        self._guest.leave()

    def _listen(self, uuid: str, handle: Handle) -> None:
        event_set = None
        try:
            event_set = pynvml.nvmlEventSetCreate()
            pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, event_set)
        except pynvml.NVMLError as error:
            if event_set is not None:
                _free(event_set)
            if error.value in UNSUPPORTED:
                self._sets[uuid] = None
            else:
                self._errors[error_reason(error)] += 1
        else:
            self._sets[uuid] = event_set

    def _fetch(self, event_set: EventSet) -> Iterator[int]:
        for _ in range(_MOST_EVENTS):
            try:
                event = pynvml.nvmlEventSetWait_v2(event_set, _WAIT_MS)
            except pynvml.NVMLError_Timeout:
                return
            except pynvml.NVMLError as error:
                self._errors[error_reason(error)] += 1
                return
            yield event.eventData

    def _forget(self) -> None:
        for event_set in self._sets.values():
            if event_set is not None:
                _free(event_set)
        self._sets.clear()


def _free(event_set: EventSet) -> None:
    with suppress(pynvml.NVMLError):
        pynvml.nvmlEventSetFree(event_set)
