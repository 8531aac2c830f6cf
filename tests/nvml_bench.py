"""The source that opens NVML, its guests, and their clock."""

from pathlib import Path

from exporter.clock import ManualClock
from exporter.records.device import DeviceReading, DeviceSample
from exporter.sources.nvml import NvmlSource
from exporter.sources.nvml_session import NvmlSession
from exporter.sources.process_names import ProcessNames

TS_UNIX_NS = 1_795_960_065_000_000_000
NAMELESS = ProcessNames(Path("/nonexistent"))


class NvmlBench:
    """The source `opener` at 500 ms; `session` is for guests. The clock stands at `TS_UNIX_NS`."""

    def __init__(self, kernel_list: Path = Path("/nonexistent")) -> None:
        self.clock = ManualClock(TS_UNIX_NS)
        self.session = NvmlSession()
        self.opener = NvmlSource(0.5, self.clock, NAMELESS, self.session, kernel_list)

    def read(self, after_s: float = 0.0) -> DeviceReading:
        """A reading so much later."""
        self.clock.advance(after_s)
        return self.opener.read()

    def samples(self, after_s: float = 0.0) -> dict[str, DeviceSample | None]:
        """Its samples by UUID."""
        return {device.facts.uuid: device.sample for device in self.read(after_s).devices}

    def sample(self, after_s: float = 0.0) -> DeviceSample:
        """The sample of the only GPU."""
        (sample,) = self.samples(after_s).values()
        assert sample is not None
        return sample
