"""The daemon's lanes beside each other: what hangs, what is let go, what the driver reports."""

import re
import signal
from pathlib import Path

import pytest

from tests.daemon import Daemon, running
from tests.fake_nvml import FakeGpu, Scenario, environment

D = 'device="cuda:0",uuid="GPU-a"'
UP = f"gpu_up{{{D}}}"
ENERGY = f"gpu_energy_joules_total{{{D}}}"
NVML_UP = 'vllm_memory_exporter_source_up{source="nvml"}'
SLOW_UP = 'vllm_memory_exporter_source_up{source="nvml_slow"}'
FAST = ("--nvml.interval", "100ms")


@pytest.fixture
def driver(fake_nvml_library: Path, tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """The scenario's file and the variables that make a program play it."""
    scenario = tmp_path / "scenario"
    Scenario(gpus=[FakeGpu(uuid="GPU-a", memory_used=700)]).write(scenario)
    return scenario, environment(fake_nvml_library, scenario)


def wait_for(daemon: Daemon, series: str, value: float) -> dict[str, float]:
    return daemon.wait_for(lambda samples: samples.get(series) == value)


def test_a_slow_call_that_hangs_leaves_memory_as_it_is_and_does_not_delay_the_end(
    driver: tuple[Path, dict[str, str]],
) -> None:
    scenario, variables = driver
    hanging = FakeGpu(
        uuid="GPU-a", memory_used=700, delay_s={"nvmlDeviceGetTotalEnergyConsumption": 600}
    )
    Scenario(gpus=[hanging]).write(scenario)
    used = f"gpu_memory_used_bytes{{{D}}}"
    with running("serve", environment=variables) as daemon:
        daemon.wait_for_log(re.compile("source nvml_slow: a read has not come back"))
        samples = daemon.wait_for(lambda samples: samples[SLOW_UP] == 0 and used in samples)
        assert samples[NVML_UP] == 1
        assert ENERGY not in samples
        assert daemon.terminate() == 0  # while the call goes on for ten minutes


def test_a11_a_driver_that_hangs_in_every_lane_does_not_delay_the_end(
    driver: tuple[Path, dict[str, str]],
) -> None:
    scenario, variables = driver
    gpus = [FakeGpu(uuid="GPU-a", gpm_dram=53.5)]
    Scenario(gpus=gpus).write(scenario)
    with running("serve", *FAST, "--nvml.gpm", environment=variables) as daemon:
        wait_for(daemon, UP, 1)
        Scenario(gpus=gpus, delay_s={"*": 600}).write(scenario)
        for source in ("nvml", "nvml_events", "nvml_gpm"):
            daemon.wait_for_log(re.compile(f"source {source}: a read has not come back"))
        assert daemon.terminate() == 0  # while the call goes on for ten minutes


def test_a10_sigusr1_lets_go_of_the_driver_and_takes_it_up_again(
    driver: tuple[Path, dict[str, str]],
) -> None:
    with running("serve", *FAST, environment=driver[1]) as daemon:
        daemon.wait_for(lambda samples: samples.get(UP) == 1 and ENERGY in samples)
        daemon.process.send_signal(signal.SIGUSR1)
        daemon.wait_for_log(re.compile("source nvml: down: .* let go, as SIGUSR1 asked"))
        daemon.wait_for(lambda samples: samples[UP] == 0 and samples[NVML_UP] == 0)
        daemon.process.send_signal(signal.SIGUSR1)
        wait_for(daemon, UP, 1)
        daemon.wait_for(lambda samples: ENERGY in samples)


def test_a10_a_long_interval_does_not_hold_the_driver(
    driver: tuple[Path, dict[str, str]],
) -> None:
    with running("serve", "--nvml.interval", "60s", environment=driver[1]) as daemon:
        daemon.wait_for(lambda samples: samples.get(UP) == 1)
        daemon.process.send_signal(signal.SIGUSR1)
        daemon.wait_for_log(re.compile("source nvml: down: .* let go, as SIGUSR1 asked"))
        daemon.process.send_signal(signal.SIGUSR1)
        daemon.wait_for_log(re.compile("source nvml: back"))


def test_sigusr1_without_a_driver_changes_nothing() -> None:
    with running("serve", "--no-nvml") as daemon:
        daemon.process.send_signal(signal.SIGUSR1)
        assert daemon.get("/-/healthy")[0] == 200


def test_xid_errors_count_from_the_driver_to_the_scrape(
    driver: tuple[Path, dict[str, str]],
) -> None:
    scenario, variables = driver
    with running("serve", *FAST, environment=variables) as daemon:
        listening = 'vllm_memory_exporter_capability{call="xid_events"}'
        wait_for(daemon, listening, 1)
        Scenario(gpus=[FakeGpu(uuid="GPU-a", xid_events=[48, 79, 48])]).write(scenario)
        series = "gpu_xid_errors_total{" + D + ',xid="48"}'
        samples = wait_for(daemon, series, 2)
        assert samples["gpu_xid_errors_total{" + D + ',xid="79"}'] == 1


@pytest.mark.parametrize("flags", [(), ("--nvml.gpm",)], ids=["off by default", "on"])
def test_gpm_is_there_when_it_was_asked_for(
    driver: tuple[Path, dict[str, str]], flags: tuple[str, ...]
) -> None:
    scenario, variables = driver
    Scenario(gpus=[FakeGpu(uuid="GPU-a", gpm_dram=53.5, gpm_sm=66.0)]).write(scenario)
    series = f"gpu_dram_bandwidth_utilization_ratio{{{D}}}"
    with running("serve", *FAST, *flags, environment=variables) as daemon:
        samples = daemon.wait_for(
            lambda samples: ENERGY in samples and (not flags or series in samples)
        )
        assert samples.get(series) == (0.535 if flags else None)
