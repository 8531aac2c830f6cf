"""The tick: newest readings → histories and analysis → ONE immutable View, swapped atomically."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from exporter.analysis.conflict_signs import ConflictRules
from exporter.analysis.rank_imbalance import with_rank_imbalance
from exporter.clock import Clock
from exporter.pipeline.device_state import DeviceState
from exporter.pipeline.ledger_state import LedgerState
from exporter.pipeline.mig_places import MigPlaces
from exporter.pipeline.pod_state import PodState
from exporter.pipeline.trace_state import TraceState
from exporter.records.device import DeviceReading, MigDevice
from exporter.records.device_detail import DetailReading, LaneReading, XidReading
from exporter.records.ledger import Ledger
from exporter.records.pods import PodReading
from exporter.records.process import ProcessFacts, RecordedProcesses
from exporter.records.source import Reading, SourceHealth
from exporter.records.trace import TraceReading
from exporter.records.view import DeviceView, MigView, View

INBOX_READINGS = 4096
SLACK_INTERVALS = 1.5  # without a device reading for this long, tick anyway

Subscriber = Callable[[View, tuple[Reading, ...]], None]

log = logging.getLogger(__name__)


class Pipeline:
    """Takes readings from any thread; one thread (or a frozen replay) calls `tick`.

    Args:
        clock: where "now" comes from.
        interval_s: how often device readings are expected.
        replay: name of the recording, when this is no live data.
        health: asked at each tick for the sources' health.
        rules: when a conflict over memory begins.
        processes: who knows of the processes in the readings; without, their pids are all there is.
        configured_unix_s: when the settings in force were loaded; None when that means nothing.
    """

    def __init__(
        self,
        clock: Clock,
        interval_s: float,
        *,
        replay: str | None = None,
        health: Callable[[], tuple[SourceHealth, ...]] = tuple,
        rules: ConflictRules | None = None,
        processes: ProcessFacts | None = None,
        configured_unix_s: float | None = None,
    ) -> None:
        self._clock = clock
        self._configured_unix_s = configured_unix_s
        self._is_config_good = True
        self.interval_s = interval_s
        self._replay = replay
        self._health = health
        self._inbox: deque[Reading] = deque(maxlen=INBOX_READINGS)
        self._wake = threading.Event()
        self._subscribers: list[Subscriber] = []
        self._devices: dict[str, DeviceState] = {}
        self._device_order: tuple[str, ...] = ()
        self._trace = TraceState()
        self._pods = PodState()
        self._mig = MigPlaces()
        self._ledgers = LedgerState(rules or ConflictRules(), processes or RecordedProcesses())
        self._trace_lines: dict[str, int] = {}
        self._dropped_bytes = 0
        self._capabilities: dict[type[Reading], dict[str, bool]] = {}
        self._view: View | None = None

    @property
    def view(self) -> View | None:
        """The newest View; None before the first tick."""
        return self._view

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` with each new View and the readings in it; returns how to stop it.

        It runs on the ticking thread: it must be quick and must not raise.
        """
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def configure(self, interval_s: float, rules: ConflictRules) -> None:
        """Go on with other settings; any thread may call it. Windows and counts stay."""
        self.interval_s = interval_s
        self._ledgers.rules = rules
        self.wake()

    def note_reload(self, unix_s: float | None) -> None:
        """Tell that settings were loaded at `unix_s`, or that a load failed: None."""
        self._is_config_good = unix_s is not None
        self._configured_unix_s = unix_s or self._configured_unix_s

    def offer(self, reading: Reading) -> None:
        """Hand in a reading; a device reading makes the next tick happen at once."""
        self._inbox.append(reading)
        if isinstance(reading, DeviceReading):
            self._wake.set()

    def run(self, stop: threading.Event) -> None:
        """Tick until `stop` is set: after each device reading, or when none comes.

        After a tick that failed the next one is tried all the same. If no View comes of them, the
        last one grows old, as who serves it can see.
        """
        has_failed = False
        while not stop.is_set():
            self._wake.wait(self.interval_s * SLACK_INTERVALS)
            self._wake.clear()
            try:
                self.tick()
            except Exception as exc:  # a fault of one tick must not end the ticking
                if not has_failed:
                    log.error(
                        "a tick failed; told again only after one that succeeds", exc_info=exc
                    )
                has_failed = True
            else:
                has_failed = False

    def wake(self) -> None:
        """Make `run` look at its stop event now."""
        self._wake.set()

    def tick(self) -> View:
        """Take in everything offered so far and publish the View of this moment."""
        now_s, now_unix_ns = self._clock.monotonic(), self._clock.unix_ns()
        readings = self._take_inbox()
        for reading in readings:
            if isinstance(reading, TraceReading):
                self._trace.observe(reading.records, now_s, now_unix_ns, self._mig.uuids)
                if reading.lines:
                    self._trace_lines = reading.lines
                    self._dropped_bytes = reading.dropped_bytes
        self._trace.refresh(now_s)
        usage_by_uuid = self._mig.highest(self._trace.usage_by_uuid(now_s))
        for reading in readings:
            if isinstance(reading, DeviceReading):
                self._observe_devices(reading, now_s, now_unix_ns, usage_by_uuid)
            elif isinstance(reading, PodReading):
                self._pods.observe(reading, now_s - max(0, now_unix_ns - reading.ts_unix_ns) / 1e9)
            elif not isinstance(reading, TraceReading):
                self._observe_lane(reading, now_s, now_unix_ns)
        view = self._compose(now_s, now_unix_ns, usage_by_uuid)
        self._view = view
        for subscriber in tuple(self._subscribers):
            subscriber(view, readings)
        return view

    def _take_inbox(self) -> tuple[Reading, ...]:
        return tuple(self._inbox.popleft() for _ in range(len(self._inbox)))

    def _observe_devices(
        self,
        reading: DeviceReading,
        now_s: float,
        now_unix_ns: int,
        usage_by_uuid: dict[str, tuple[float, float]],
    ) -> None:
        at_s = now_s - max(0, now_unix_ns - reading.ts_unix_ns) / 1e9
        for device in reading.devices:
            uuid = device.facts.uuid
            state = self._device_state(uuid)
            state.observe(device, at_s, reading.interval_s)
            peak = usage_by_uuid.get(uuid)
            state.observe_effective(at_s, peak[1] if peak else None)
        if reading.devices:  # a recorded tick without a reading has none, and tells nothing
            self._device_order = tuple(device.facts.uuid for device in reading.devices)
        self._mig.observe(reading)
        self._ledgers.observe(reading, self._trace.workers(at_s), self._trace.engine_pids(), now_s)
        if reading.capabilities is not None:
            self._capabilities[type(reading)] = reading.capabilities

    def _observe_lane(self, reading: LaneReading, now_s: float, now_unix_ns: int) -> None:
        at_s = now_s - max(0, now_unix_ns - reading.ts_unix_ns) / 1e9
        if isinstance(reading, XidReading):
            for event in reading.events:
                details = self._device_state(event.uuid).details
                details.xid_errors[str(event.xid)] += 1
        elif isinstance(reading, DetailReading):
            for uuid, detail in reading.gpus.items():
                details = self._device_state(uuid).details
                details.observe_detail(detail, at_s, reading.interval_s)
        else:
            for uuid, profile in reading.gpus.items():
                details = self._device_state(uuid).details
                details.profile.put(profile, at_s, reading.interval_s)
        if reading.capabilities is not None:
            self._capabilities[type(reading)] = reading.capabilities

    def _device_state(self, uuid: str) -> DeviceState:
        if uuid not in self._devices:
            self._devices[uuid] = DeviceState()
        return self._devices[uuid]

    def _compose(
        self, now_s: float, now_unix_ns: int, usage_by_uuid: dict[str, tuple[float, float]]
    ) -> View:
        devices = tuple(
            self._device_view(uuid, now_s, usage_by_uuid) for uuid in self._device_order
        )
        index_by_uuid = self._mig.with_devices(
            {device.facts.uuid: device.facts.index for device in devices}
        )
        ledgers = dict(_ledgers(devices))
        parts_bytes = self._ledgers.parts_bytes(ledgers)
        ranks = self._trace.rank_views(now_s, index_by_uuid, parts_bytes)
        return View(
            ts_unix_ns=now_unix_ns,
            published_monotonic_s=now_s,
            interval_s=self.interval_s,
            replay=self._replay,
            devices=devices,
            engines=with_rank_imbalance(self._trace.engine_views(now_s), ranks, ledgers),
            ranks=ranks,
            silent_ranks=self._trace.silent_rank_views(now_s, index_by_uuid),
            sources=self._health(),
            trace_lines=self._trace_lines | _told("no_room", self._trace.refused),
            dropped_bytes=self._dropped_bytes,
            capabilities={
                call: is_supported
                for capabilities in self._capabilities.values()
                for call, is_supported in capabilities.items()
            },
            duplicate_identities=self._trace.duplicates(now_s),
            conflicts=self._ledgers.conflicts,
            ledger_incoherent=self._ledgers.incoherent,
            gpu_holders=self._pods.view(now_s, index_by_uuid),
            config_reload_success=(
                None if self._configured_unix_s is None else self._is_config_good
            ),
            config_reload_unix_s=self._configured_unix_s,
        )

    def _mig_views(self, mig: Iterable[MigDevice]) -> dict[str, MigView]:
        return {
            device.uuid: MigView(
                ledger=self._ledgers.ledger(device.uuid),
                conflicts=self._ledgers.conflict_counts(device.uuid),
            )
            for device in mig
        }

    def _device_view(
        self, uuid: str, now_s: float, usage_by_uuid: dict[str, tuple[float, float]]
    ) -> DeviceView:
        usage = usage_by_uuid.get(uuid)
        return self._devices[uuid].view(
            now_s,
            usage[0] if usage else None,
            self._ledgers.ledger(uuid),
            self._ledgers.conflict_counts(uuid),
            self._mig_views,
        )


def _ledgers(devices: Iterable[DeviceView]) -> Iterator[tuple[str, Ledger]]:
    """Of GPUs and MIG devices, by UUID."""
    for device in devices:
        if device.ledger:
            yield device.facts.uuid, device.ledger
        for uuid, mig in (device.mig or {}).items():
            if mig.ledger:
                yield uuid, mig.ledger


def _told(outcome: str, count: int) -> dict[str, int]:
    return {outcome: count} if count else {}
