"""A stand-in for libnvidia-ml.so.1 behind the real pynvml, driven by a scenario file."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

SCENARIO_VARIABLE = "FAKE_NVML_SCENARIO"
SONAME = "libnvidia-ml.so.1"
H200_TOTAL_BYTES = 150_754_820_096
H200_RESERVED_BYTES = 644_939_776

Number = int | Sequence[int]  # a sequence: one value a call, the last one repeating
Real = float | Sequence[float]


@dataclass(frozen=True)
class FakeProcess:
    """One row of a process list; `used_bytes` None: the driver does not say.

    `mig`: the place in its GPU's `migs` of the MIG device that it runs on.
    """

    pid: int
    used_bytes: int | None
    kind: Literal["compute", "graphics"] = "compute"
    mig: int | None = None

    def line(self) -> str:
        used = "unknown" if self.used_bytes is None else str(self.used_bytes)
        place = "" if self.mig is None else f"@{self.mig}"
        return f"process {self.kind}{place} {self.pid} {used}"


@dataclass(frozen=True, kw_only=True)
class FakeMig:
    """One MIG device of a GPU: a compute instance of a GPU instance."""

    uuid: str
    profile: str = "3g.71gb"
    gpu_instance: int = 2
    compute_instance: int = 0
    total: int = 75_161_927_680
    used: int = 1_000_000_000
    reserved: int = 44_040_192

    def line(self, slot: int) -> str:
        return (
            f"mig_{slot} {self.uuid} {self.profile} {self.gpu_instance} {self.compute_instance}"
            f" {self.total} {self.used} {self.reserved}"
        )


@dataclass(frozen=True, kw_only=True)
class FakeGpu:
    """One GPU; a figure that is None is not supported. `rc`, `delay_s`: by function, `*` is all."""

    uuid: str
    name: str = "NVIDIA H200"
    bus: str = "00000000:1B:00.0"
    memory_total: Number | None = H200_TOTAL_BYTES
    memory_reserved: Number | None = H200_RESERVED_BYTES
    memory_used: Number | None = 0
    memory_free: Number | None = None  # None: what is left
    utilization_gpu: Number | None = 37
    utilization_memory: Number | None = 12
    power_mw: Number | None = 412_345
    power_limit_mw: Number | None = 700_000
    temperature_gpu: Number | None = 36
    temperature_memory: Number | None = 41
    clock_sm_mhz: Number | None = 1_980
    clock_memory_mhz: Number | None = 3_201
    clock_graphics_mhz: Number | None = 1_965
    clock_video_mhz: Number | None = 1_545
    performance_state: Number | None = 0
    persistence_mode: Number | None = 1
    compute_mode: Number | None = 0
    display_active: Number | None = 0
    display_mode: Number | None = 0
    pcie_transmit_kb: Number | None = 3_500
    pcie_receive_kb: Number | None = 1_200
    energy_mj: Number | None = 2_895_846
    serial: str = "1650000000001"
    bar1_total: Number | None = 274_877_906_944
    bar1_used: Number | None = 1_703_936
    ecc_corrected_volatile: Number | None = 7
    ecc_uncorrected_volatile: Number | None = 2
    ecc_corrected_aggregate: Number | None = 31
    ecc_uncorrected_aggregate: Number | None = 5
    remapped_rows: tuple[int, int, int, int] | None = (4, 3, 1, 0)
    pcie_replays: Number | None = 11
    pcie_generation: Number | None = 4
    pcie_max_generation: Number | None = 5
    pcie_lanes: Number | None = 8
    pcie_max_lanes: Number | None = 16
    nvlinks: Sequence[int] | None = None  # the state of each
    nvlink_transmit_kib: Number | None = None
    nvlink_receive_kib: Number | None = None
    nvlink_crc_flit_errors: Number | None = None
    nvlink_crc_data_errors: Number | None = None
    nvlink_replay_errors: Number | None = None
    nvlink_recovery_errors: Number | None = None
    xid_events: Sequence[int] | None = None  # each is delivered once
    gpm_dram: Real | None = None  # percent, or MiB/s; GPM is there when this one is
    gpm_sm: Real | None = None
    gpm_occupancy: Real | None = None
    gpm_tensor: Real | None = None
    gpm_pcie_tx: Real | None = None
    gpm_pcie_rx: Real | None = None
    gpm_nvlink_tx: Real | None = None
    gpm_nvlink_rx: Real | None = None
    mig_mode: int | None = 0
    migs: Sequence[FakeMig | None] = ()  # None: the place is empty
    event_reasons: Number | None = 0x4
    event_reasons_supported: Number | None = 0x1FF
    processes: Sequence[FakeProcess] = ()
    process_row_bytes: int | None = None
    rc: Mapping[str, Number] = field(default_factory=dict)
    delay_s: Mapping[str, float] = field(default_factory=dict)

    def lines(self, index: int) -> list[str]:
        figures = {
            key: value
            for key, value in vars(self).items()
            if key not in ("processes", "migs", "rc", "delay_s") and value is not None
        }
        return [
            f"gpu {index}",
            *(f"{key} {_words(value)}" for key, value in figures.items()),
            *(process.line() for process in self.processes),
            *(mig.line(slot) for slot, mig in enumerate(self.migs) if mig is not None),
            *_rules(self.rc, self.delay_s),
        ]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """All that the library answers. `later`: seconds since load → lines that hold from then on."""

    gpus: Sequence[FakeGpu] = ()
    driver: str = "580.159.04"
    rc: Mapping[str, Number] = field(default_factory=dict)
    delay_s: Mapping[str, float] = field(default_factory=dict)
    later: Mapping[float, Sequence[str]] = field(default_factory=dict)

    def text(self) -> str:
        lines = [f"driver {self.driver}", f"nvml 13.{self.driver}", "cuda 13000"]
        lines += _rules(self.rc, self.delay_s)
        for index, gpu in enumerate(self.gpus):
            lines += gpu.lines(index)
        for at_s in sorted(self.later):
            lines += [f"at {at_s}", *self.later[at_s]]
        return "\n".join(lines) + "\n"

    def write(self, path: Path) -> None:
        """Put the scenario in place in one step: the library sees the old one or this one."""
        draft = path.with_name(path.name + ".draft")
        draft.write_text(self.text())
        os.replace(draft, path)


def build(directory: Path, without: Sequence[str] = ()) -> Path:
    """Compile the library into `directory` with gcc, hiding the functions `without`; its path."""
    library = directory / SONAME
    command = ["gcc", "-Wall", "-Wextra", "-O1", "-shared", "-fPIC", "-pthread"]
    command += [f"-Wl,-soname,{SONAME}", "-o", str(library)]
    if without:
        hidden = directory / "hidden.map"
        hidden.write_text("{ local: " + " ".join(f"{name};" for name in without) + " };\n")
        command.append(f"-Wl,--version-script={hidden}")
    here = Path(__file__).parent
    subprocess.run([*command, str(here / "nvml.c"), str(here / "scenario.c")], check=True)
    return library


def environment(library: Path, scenario: Path) -> dict[str, str]:
    """Variables that make a new process load the library and play the scenario."""
    return {"LD_LIBRARY_PATH": str(library.parent), SCENARIO_VARIABLE: str(scenario)}


def _rules(codes: Mapping[str, Number], delays_s: Mapping[str, float]) -> list[str]:
    return [f"rc {function} {_words(code)}" for function, code in codes.items()] + [
        f"delay_s {function} {delay_s}" for function, delay_s in delays_s.items()
    ]


def _words(value: str | Real) -> str:
    return " ".join(map(str, value)) if not isinstance(value, str | int | float) else str(value)
