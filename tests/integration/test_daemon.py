"""The program as users run it: real process, real sockets, the stand-in driver."""

import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.daemon import Daemon, run, running
from tests.fake_nvml import FakeGpu, FakeProcess, Scenario, environment

GPU_A = 'device="cuda:0",uuid="GPU-0000000a-0000-0000-0000-000000000000"'
GPU_B = 'device="cuda:1",uuid="GPU-0000000b-0000-0000-0000-000000000000"'
BARE_LINE = '{"page_table": {"num_pages": 42, "contiguous_pages": 17}}\n'
CONTIGUITY = 'vllm_page_table_contiguity_ratio{engine="",model_name="",replica="engine-7"}'


def two_gpus(used_bytes: int = 7_000_000_000) -> Scenario:
    return Scenario(
        gpus=[
            FakeGpu(
                uuid="GPU-0000000a-0000-0000-0000-000000000000",
                memory_used=used_bytes,
                processes=[FakeProcess(3_999_999, 6_500_000_000)],
            ),
            FakeGpu(uuid="GPU-0000000b-0000-0000-0000-000000000000", memory_used=123_456_789),
        ]
    )


@pytest.fixture
def driver(fake_nvml_library: Path, tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A scenario file with two GPUs, and the variables that make a process play it."""
    scenario = tmp_path / "scenario"
    two_gpus().write(scenario)
    return scenario, environment(fake_nvml_library, scenario)


def test_it_samples_the_gpus_that_the_driver_has(driver: tuple[Path, dict[str, str]]) -> None:
    with running("serve", environment=driver[1]) as daemon:
        samples = daemon.wait_for(lambda samples: f"gpu_up{{{GPU_A}}}" in samples)
        assert samples[f"gpu_up{{{GPU_A}}}"] == 1
        assert samples[f"gpu_memory_total_bytes{{{GPU_A}}}"] == 150_754_820_096
        assert samples[f"gpu_memory_used_bytes{{{GPU_A}}}"] == 7_000_000_000
        assert samples[f"gpu_memory_reserved_bytes{{{GPU_A}}}"] == 644_939_776
        assert samples[f"gpu_memory_used_bytes{{{GPU_B}}}"] == 123_456_789
        assert samples[f"gpu_memory_pressure_ratio{{{GPU_A}}}"] == pytest.approx(
            7_000_000_000 / (150_754_820_096 - 644_939_776)
        )
        assert samples[f"gpu_processes{{{GPU_A}}}"] == 1
        assert samples[
            'gpu_process_memory_used_bytes{device="cuda:0",pid="3999999",process_name="",'
            'uuid="GPU-0000000a-0000-0000-0000-000000000000"}'
        ] == (6_500_000_000)


def test_a_change_on_the_gpu_is_in_the_next_scrapes(driver: tuple[Path, dict[str, str]]) -> None:
    scenario, variables = driver
    with running("serve", "--nvml.interval", "100ms", environment=variables) as daemon:
        used = f"gpu_memory_used_bytes{{{GPU_A}}}"
        daemon.wait_for(lambda samples: samples.get(used) == 7_000_000_000)
        two_gpus(used_bytes=9_000_000_000).write(scenario)
        samples = daemon.wait_for(lambda samples: samples.get(used) == 9_000_000_000)
        assert samples[f"gpu_memory_used_window_min_bytes{{{GPU_A}}}"] == 7_000_000_000


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_exit_code_0(
    driver: tuple[Path, dict[str, str]], signal_number: signal.Signals
) -> None:
    with running("serve", environment=driver[1]) as daemon:
        daemon.wait_for(lambda samples: f"gpu_up{{{GPU_A}}}" in samples)
        daemon.process.send_signal(signal_number)
        assert daemon.process.wait(10) == 0


def test_a19_a_driver_call_that_hangs_makes_nvml_absent_and_does_not_delay_the_end(
    driver: tuple[Path, dict[str, str]],
) -> None:
    scenario, variables = driver
    with running("serve", "--nvml.interval", "100ms", environment=variables) as daemon:
        daemon.wait_for(lambda samples: samples.get(f"gpu_up{{{GPU_A}}}") == 1)
        hung = Scenario(gpus=two_gpus().gpus, delay_s={"nvmlDeviceGetMemoryInfo_v2": 600})
        hung.write(scenario)
        source_up = 'vllm_memory_exporter_source_up{source="nvml"}'
        samples = daemon.wait_for(lambda samples: samples.get(source_up) == 0)
        assert samples[f"gpu_up{{{GPU_A}}}"] == 0
        assert f"gpu_memory_used_bytes{{{GPU_A}}}" not in samples
        daemon.wait_for_log(re.compile("source nvml: a read has not come back"))
        assert daemon.terminate() == 0
        assert "source-nvml hangs in a read; leaving it behind" in "\n".join(daemon.log)


def test_it_is_gone_within_two_seconds_of_a_signal_while_the_driver_hangs(
    driver: tuple[Path, dict[str, str]],
) -> None:
    """The one test of that time. A machine with much else to do may be late, but not each time."""
    scenario, variables = driver
    took_s: list[float] = []
    while len(took_s) < 5 and min(took_s, default=2) >= 2:
        two_gpus().write(scenario)
        with running("serve", "--nvml.interval", "100ms", environment=variables) as daemon:
            daemon.wait_for(lambda samples: samples.get(f"gpu_up{{{GPU_A}}}") == 1)
            hung = Scenario(gpus=two_gpus().gpus, delay_s={"nvmlDeviceGetMemoryInfo_v2": 600})
            hung.write(scenario)
            daemon.wait_for_log(re.compile("source nvml: a read has not come back"))
            began_s = time.monotonic()
            assert daemon.terminate() == 0
            took_s.append(time.monotonic() - began_s)
    assert min(took_s) < 2


def test_a_signal_as_soon_as_it_says_that_it_serves_ends_it_with_exit_code_0() -> None:
    with running("serve", "--no-nvml") as daemon:
        assert daemon.terminate() == 0
        assert daemon.log[-1].endswith("msg=ended")


def test_a17_without_gpu_and_trace_it_starts_and_says_once_how_to_fix_that() -> None:
    with running("serve") as daemon:
        up = 'vllm_memory_exporter_source_up{source="nvml"}'
        errors = (
            'vllm_memory_exporter_source_errors_total{reason="library_not_found",source="nvml"}'
        )
        samples = daemon.wait_for(lambda samples: samples.get(errors, 0) >= 2)
        assert samples[up] == 0
        assert not [series for series in samples if series.startswith(("gpu_", "vllm_kv"))]
        assert daemon.get("/-/healthy")[0] == 200
        assert daemon.get("/-/ready")[0] == 200
        about_nvml = [line for line in daemon.log if "source nvml" in line]
        assert len(about_nvml) == 1
        assert "--no-nvml" in about_nvml[0]
        about_trace = [line for line in daemon.log if "--trace.path" in line]
        assert len(about_trace) == 1
        assert "VLLM_MEMORY_TRACE_DIR" in about_trace[0]


def test_a_driver_that_comes_later_is_picked_up(fake_nvml_library: Path, tmp_path: Path) -> None:
    scenario = tmp_path / "scenario"
    Scenario(gpus=two_gpus().gpus, rc={"nvmlInit_v2": 9, "nvmlInitWithFlags": 9}).write(scenario)
    with running("serve", environment=environment(fake_nvml_library, scenario)) as daemon:
        reason = (
            'vllm_memory_exporter_source_errors_total{reason="driver_not_loaded",source="nvml"}'
        )
        daemon.wait_for(lambda samples: samples.get(reason, 0) >= 1)
        two_gpus().write(scenario)
        daemon.wait_for(lambda samples: samples.get(f"gpu_up{{{GPU_A}}}") == 1)
        daemon.wait_for_log(re.compile("source nvml: back"))


def follow(daemon: Daemon, accepted: int) -> dict[str, float]:
    """The samples once so many lines were taken, whatever came of them."""
    prefix = "vllm_memory_exporter_trace_lines_total"
    return daemon.wait_for(
        lambda samples: (
            sum(value for series, value in samples.items() if series.startswith(prefix)) >= accepted
        )
    )


def test_a_bare_page_table_line_is_one_contiguity_and_a_broken_one_changes_nothing(
    tmp_path: Path,
) -> None:
    trace = tmp_path / "engine-7.jsonl"
    trace.write_text(BARE_LINE)
    with running("serve", "--no-nvml", "--trace.path", str(trace)) as daemon:
        samples = follow(daemon, 1)
        assert samples[CONTIGUITY] == pytest.approx(17 / 42)
        assert len([series for series in samples if "contiguity_ratio" in series]) == 1
        with trace.open("a") as file:
            file.write('{"num_pages": NaN, "contiguous_pages": 3}\n')
            file.write('{"page_table": {"num_pages": NaN, "contiguous_pages": 3}}\n')
        samples = follow(daemon, 3)
        assert samples[CONTIGUITY] == pytest.approx(17 / 42)
        assert samples['vllm_page_table_pages{engine="",model_name="",replica="engine-7"}'] == 42
        assert len([series for series in samples if "contiguity_ratio" in series]) == 1


def test_garbage_in_a_trace_is_counted_and_the_good_lines_count(tmp_path: Path) -> None:
    trace = tmp_path / "engine-7.jsonl"
    trace.write_bytes(b'\xff\xfe\n{"page_table": \nplain text\n' + BARE_LINE.encode())
    with running("serve", "--no-nvml", "--trace.path", str(tmp_path)) as daemon:
        samples = follow(daemon, 4)
        lines = {
            outcome: samples[f'vllm_memory_exporter_trace_lines_total{{outcome="{outcome}"}}']
            for outcome in ("accepted", "malformed", "invalid_utf8", "ignored")
        }
        assert lines == {"accepted": 1, "malformed": 1, "invalid_utf8": 1, "ignored": 1}
        assert samples[CONTIGUITY] == pytest.approx(17 / 42)


class TestMistakes:
    """Of an operator: one line on standard error, no traceback, a telling exit code."""

    @pytest.mark.parametrize(
        ("arguments", "line"),
        [
            pytest.param(
                ["serve", "--nvml.interval", "5"],
                "--nvml.interval: '5' is not allowed;"
                " use a duration from 100ms to 60s, for example 500ms",
                id="interval",
            ),
            pytest.param(
                ["serve", "--web.listen-address", "nowhere"],
                "--web.listen-address: 'nowhere' is not an address; allowed: HOST:PORT, :PORT or"
                " [IPV6]:PORT with a port up to 65535, for example :10411",
                id="address",
            ),
            pytest.param(
                ["--replay.freeze-at", "3"],
                "--replay.freeze-at: needs --replay FILE (or the demo command)",
                id="freeze-without-replay",
            ),
            pytest.param(
                ["record", "--output", "x", "--for", "soon"],
                "--for: 'soon' is not allowed; use a duration from 0.1s to 86400s",
                id="duration",
            ),
        ],
    )
    def test_a_setting_that_cannot_be_is_exit_code_2(self, arguments: list[str], line: str) -> None:
        result = run(*arguments)
        assert result.returncode == 2
        assert result.stderr == f"vllm-memory-exporter: {line}\n"

    def test_a_mistake_in_the_file_names_it(self, tmp_path: Path) -> None:
        config = tmp_path / "exporter.yml"
        config.write_text("nvml: {interval: 1 parsec}\n")
        result = run("serve", "--config.file", str(config))
        assert result.returncode == 2
        assert result.stderr == (
            f"vllm-memory-exporter: {config}: nvml.interval: '1 parsec' is not allowed;"
            " use a duration from 100ms to 60s, for example 500ms\n"
        )

    def test_a_taken_port_is_exit_code_1(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            address = f"127.0.0.1:{other.getsockname()[1]}"
            result = run("serve", "--web.listen-address", address)
        assert result.returncode == 1
        last_line = result.stderr.splitlines()[-1]
        assert last_line.startswith(f"vllm-memory-exporter: cannot listen on {address}: ")
        assert "Traceback" not in result.stderr

    def test_a_recording_that_is_not_there_is_exit_code_1(self, tmp_path: Path) -> None:
        missing = tmp_path / "missing.jsonl"
        result = run("serve", "--web.listen-address", "127.0.0.1:0", "--replay", str(missing))
        assert result.returncode == 1
        assert result.stderr == (f"vllm-memory-exporter: {missing}: No such file or directory\n")

    def test_a_recording_is_never_overwritten(self, tmp_path: Path) -> None:
        output = tmp_path / "incident.jsonl"
        output.write_text("precious")
        result = run("record", "--no-nvml", "--output", str(output), "--for", "1s")
        assert result.returncode == 1
        assert result.stderr.splitlines()[-1] == (
            f"vllm-memory-exporter: --output {output}: exists; choose a new name"
        )
        assert output.read_text() == "precious"


def test_serve_imports_nothing_that_only_other_commands_need() -> None:
    code = (
        "import sys, exporter.cli, exporter.commands.serve;"
        "print([name for name in ('rich', 'bcrypt', 'grpc') if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout == "[]\n"


@pytest.mark.parametrize("arguments", [["--help"], ["serve", "--help"], ["--version"]])
def test_help_and_version_are_answers(arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.returncode == 0
    assert "vllm-memory-exporter" in result.stdout
