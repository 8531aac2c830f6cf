"""All that NVML tells of two real H200 beside a load whose figures are known (driver 580.159.04).

Expected values are the load's own, and those that nvidia-smi showed some minutes before.
"""

import gzip
import re
from itertools import pairwise
from pathlib import Path

import pytest

from exporter.records.device import DeviceReading
from exporter.records.device_detail import DetailReading
from exporter.sources.recording import Recording
from exporter.views.metrics.table import FAMILIES
from tests.daemon import samples_of

RECORDING = Path(__file__).with_name("h200_complete.jsonl.gz")
SCRAPE = Path(__file__).with_name("h200_complete_scrape.txt").read_text()
UUIDS = [f"GPU-{n:08x}-0000-4000-8000-{n:012x}" for n in (1, 2)]
MIB = 2**20
COPIED_BYTES_PER_S = 4.2435e12  # read and written, as the load counted
PEAK_BYTES_PER_S = 2 * 3201e6 * 6016 / 8  # two transfers a cycle on a bus of 6,016 bits

SAME_NS = 200_000_000  # two lanes read within this time of each other


@pytest.fixture
def copying() -> dict[str, float]:
    """The scrape, 15.2 s into the recording: GPU 0 copies within its memory, GPU 1 idles."""
    return samples_of(SCRAPE)


def of_gpus(samples: dict[str, float], name: str, **more: str) -> list[float]:
    """The values of the two GPUs."""
    values = []
    for gpu, uuid in enumerate(UUIDS):
        every = {"device": f"cuda:{gpu}", "uuid": uuid, **more}
        labels = ",".join(f'{label}="{every[label]}"' for label in sorted(every))
        values.append(samples[f"{name}{{{labels}}}"])
    return values


def test_facts_are_those_of_nvidia_smi(copying: dict[str, float]) -> None:
    smi = {
        "gpu_memory_reserved_bytes": (616 * MIB, MIB),
        "gpu_memory_total_bytes": (143_771 * MIB, MIB),
        "gpu_bar1_total_bytes": (262_144 * MIB, 0),
        "gpu_power_limit_watts": (700, 0),
        "gpu_pcie_link_generation": (5, 0),
        "gpu_pcie_link_max_generation": (5, 0),
        "gpu_pcie_link_lanes": (16, 0),
        "gpu_pcie_link_max_lanes": (16, 0),
    }
    for name, (value, rounding) in smi.items():
        assert of_gpus(copying, name) == pytest.approx([value, value], abs=rounding, rel=0), name
    assert of_gpus(copying, "gpu_pcie_replays_total") == [0, 1]
    assert of_gpus(copying, "gpu_nvlink_links", state="up") == [18, 18]
    assert of_gpus(copying, "gpu_nvlink_links", state="down") == [0, 0]
    assert SCRAPE.count('driver="580.159.04"') == SCRAPE.count('name="NVIDIA H200"') == 2


def test_memory_has_no_error(copying: dict[str, float]) -> None:
    for kind in ("corrected_volatile", "uncorrected_volatile", "corrected_aggregate"):
        assert of_gpus(copying, "gpu_ecc_errors_total", kind=kind) == [0, 0]
    for kind in ("correctable", "uncorrectable", "pending", "failure"):
        assert of_gpus(copying, "gpu_remapped_rows", kind=kind) == [0, 0]


def test_memory_bandwidth_is_the_loads_and_only_on_its_gpu(copying: dict[str, float]) -> None:
    loaded, idle = of_gpus(copying, "gpu_dram_bandwidth_utilization_ratio")
    assert loaded * PEAK_BYTES_PER_S == pytest.approx(COPIED_BYTES_PER_S, rel=0.01)
    assert idle < 1e-5
    assert of_gpus(copying, "gpu_tensor_utilization_ratio") == [0, 0]  # a copy multiplies nothing
    assert of_gpus(copying, "gpu_memory_controller_utilization_ratio") == [1, 0]
    assert of_gpus(copying, "gpu_sm_utilization_ratio") == [pytest.approx(0.99, abs=0.01), 0]


def test_energy_is_power_over_time() -> None:
    readings = [event.reading for event in Recording.load(RECORDING).events]
    details = [reading for reading in readings if isinstance(reading, DetailReading)]
    # between its second and last reading the first GPU is idle, copies, and then takes 690 W
    begin_ns, end_ns = details[1].ts_unix_ns, details[-1].ts_unix_ns
    for gpu, uuid in enumerate(UUIDS):
        powers = [
            (reading.ts_unix_ns, sample.power_watts)
            for reading in readings
            if isinstance(reading, DeviceReading)
            if begin_ns - SAME_NS <= reading.ts_unix_ns <= end_ns + SAME_NS
            if (sample := reading.devices[gpu].sample) and sample.power_watts is not None
        ]
        joules = sum(
            (later_ns - at_ns) / 1e9 * (watts + later) / 2
            for (at_ns, watts), (later_ns, later) in pairwise(powers)
        )
        counted = [reading.gpus[uuid].counters["energy_joules"] for reading in details]
        assert counted[-1] - counted[1] == pytest.approx(joules, rel=0.02)


def test_every_family_but_those_without_cause_is_there() -> None:
    told = set(re.findall(r"^# TYPE (gpu_\S+)", SCRAPE, re.MULTILINE))
    missing = {family.name for family in FAMILIES if family.name.startswith("gpu_")} - told
    without_cause = ("gpu_mig_", "gpu_unified_", "gpu_memory_effective_")
    assert {name for name in missing if not name.startswith(without_cause)} == {
        "gpu_pod_info",  # no Kubernetes
        "gpu_memory_conflicts_total",  # no engine
        "gpu_xid_errors_total",  # no error
        "gpu_nvlink_errors_total",  # not told by this driver
    }


def test_nothing_of_the_machine_is_in_it() -> None:
    text = gzip.decompress(RECORDING.read_bytes()).decode() + SCRAPE
    assert set(re.findall(r"GPU-[0-9a-f-]{36}", text)) == set(UUIDS)
    assert set(re.findall(r"[0-9A-F]{8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-9]", text)) == {
        "00000000:1B:00.0",
        "00000000:2B:00.0",
    }
    assert not re.search(r"serial|hostname|/(home|root|tmp)/", text)
