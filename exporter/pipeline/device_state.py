"""One GPU between ticks: its last sample, its windows and histograms."""

from collections.abc import Callable

from exporter.analysis import pressure
from exporter.history.sample_histogram import PRESSURE_BOUNDS, SampleHistogram
from exporter.history.sliding_window import SlidingWindow
from exporter.pipeline.device_details import STALE_INTERVALS, DeviceDetails
from exporter.records.conflict import ConflictKind
from exporter.records.device import Device, MigDevice
from exporter.records.ledger import Ledger
from exporter.records.source import Histogram
from exporter.records.view import DeviceView, MigView

WINDOW_CAPACITY = 602  # samples of 60 s at the shortest interval, 100 ms


class PressureHistory:
    """Window and histogram of one pressure ratio."""

    def __init__(self) -> None:
        self.window = SlidingWindow(WINDOW_CAPACITY)
        self._histogram = SampleHistogram(PRESSURE_BOUNDS)

    def observe(self, at_s: float, ratio: float) -> None:
        """Count one sample of the ratio (0 to 1) taken at `at_s`."""
        self.window.add(at_s, ratio)
        self._histogram.observe(ratio)

    def samples(self) -> Histogram | None:
        """All samples since start; None before the first."""
        histogram = self._histogram.snapshot()
        return histogram if any(histogram.counts) else None


class DeviceState:
    """Remembers one GPU; `observe` at each reading, `view` at each tick.

    `details`: what slower lanes tell of it.
    """

    def __init__(self) -> None:
        self.details = DeviceDetails()
        self._used_bytes = SlidingWindow(WINDOW_CAPACITY)
        self._pressure = PressureHistory()
        self._effective = PressureHistory()
        self._device: Device | None = None
        self._at_s = 0.0
        self._interval_s = 0.0

    def observe(self, device: Device, at_s: float, interval_s: float) -> None:
        """Take one reading of this GPU; without a sample it is down from now on."""
        self._device, self._at_s, self._interval_s = device, at_s, interval_s
        memory = device.sample.memory if device.sample else None
        if memory is None:
            return
        self._used_bytes.add(at_s, memory.used_bytes)
        ratio = pressure.device_pressure(memory)
        if ratio is not None:
            self._pressure.observe(at_s, ratio)

    def observe_effective(self, at_s: float, peak_ratio: float | None) -> None:
        """Take the highest KV usage (0 to 1) of this GPU's engines; None when they tell none."""
        if peak_ratio is not None:
            self._effective.observe(at_s, peak_ratio)

    def view(
        self,
        now_s: float,
        effective_ratio: float | None,
        ledger: Ledger | None,
        conflicts: dict[ConflictKind, int] | None,
        mig_views: Callable[[tuple[MigDevice, ...]], dict[str, MigView]],
    ) -> DeviceView:
        """This GPU now: without sample and ledger once the last one is three intervals old.

        `ledger` is that of the last reading, `mig_views` makes those of its MIG devices.
        """
        if self._device is None:
            raise ValueError("a GPU has no view before its first reading")
        is_fresh = now_s - self._at_s <= STALE_INTERVALS * self._interval_s
        sample = self._device.sample if is_fresh else None
        memory = sample.memory if sample else None
        return DeviceView(
            facts=self._device.facts,
            is_up=sample is not None,
            sample=sample,
            used_window_bytes=self._used_bytes.summary(now_s) if sample else None,
            pressure_ratio=pressure.device_pressure(memory) if memory else None,
            pressure_window=self._pressure.window.summary(now_s) if sample else None,
            pressure_samples=self._pressure.samples(),
            effective_pressure_ratio=effective_ratio,
            effective_pressure_window=(
                self._effective.window.summary(now_s) if effective_ratio is not None else None
            ),
            effective_pressure_samples=self._effective.samples(),
            ledger=ledger if sample else None,
            conflicts=conflicts,
            detail=self.details.detail(now_s) if sample else None,
            profile=self.details.profile.get(now_s) if sample else None,
            mig=mig_views(sample.mig) if sample and sample.mig else None,
            xid_errors=dict(self.details.xid_errors) or None,
        )
