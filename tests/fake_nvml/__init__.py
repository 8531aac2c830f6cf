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


@dataclass(frozen=True)
class FakeProcess:
    """One row of a process list; `used_bytes` None: the driver does not say."""

    pid: int
    used_bytes: int | None
    kind: Literal["compute", "graphics"] = "compute"

    def line(self) -> str:
        used = "unknown" if self.used_bytes is None else str(self.used_bytes)
        return f"process {self.kind} {self.pid} {used}"


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
            if key not in ("processes", "rc", "delay_s") and value is not None
        }
        return [
            f"gpu {index}",
            *(f"{key} {_words(value)}" for key, value in figures.items()),
            *(process.line() for process in self.processes),
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


def _words(value: str | Number) -> str:
    return " ".join(map(str, value)) if not isinstance(value, str | int) else str(value)
