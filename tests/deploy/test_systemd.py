"""The unit as systemd reads it."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.daemon import running
from tests.deploy.conftest import ROOT
from tests.deploy.flags import parsed
from tests.programs import require_program

UNIT = ROOT / "deploy/systemd/vllm-memory-exporter.service"
RELOADED = "vllm_memory_exporter_config_last_reload_success_timestamp_seconds"
MAX_EXPOSURE = 20
"""Tenths: 0 is perfect isolation, 100 none; the GPUs, the network and others' names are needed."""


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [require_program("systemd-analyze"), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with a program that exists here: verify asks for it."""
    program = tmp_path / "vllm-memory-exporter"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    path = tmp_path / UNIT.name
    text, count = re.subn(r"(?m)^ExecStart=/opt/\S+", f"ExecStart={program}", UNIT.read_text())
    assert count == 1
    path.write_text(text)
    return path


def test_systemd_finds_nothing_wrong(unit: Path) -> None:
    result = analyze("verify", "--man=no", unit)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_systemd_would_find_a_misspelt_line(unit: Path) -> None:
    unit.write_text(unit.read_text().replace("ProtectHome=", "ProtectHom="))
    assert "ProtectHom" in analyze("verify", "--man=no", unit).stderr


def test_it_is_exposed_as_little_as_it_can_be(unit: Path) -> None:
    result = analyze("security", "--offline=yes", f"--threshold={MAX_EXPOSURE}", unit)
    assert result.returncode == 0, result.stdout


def test_its_flags_exist() -> None:
    text = UNIT.read_text()
    (start,) = re.findall(r"(?m)^ExecStart=\S+ (.*) \$ARGS$", text)
    (example,) = re.findall(r'(?m)^# ARGS="(.*)"$', text)
    context = parsed([*shlex.split(start), *shlex.split(example)])
    assert context.info_name == "serve"
    assert context.params["trace_path"] == ("/var/run/vllm-trace",)


def test_reload_reads_the_configuration_again(tmp_path: Path) -> None:
    """The unit's own command, on a daemon whose file has changed."""
    (reload,) = re.findall(r"(?m)^ExecReload=(.*)$", UNIT.read_text())
    config = tmp_path / "config.yml"
    config.write_text("log: {level: info}\n")
    with running("serve", "--no-nvml", "--config.file", str(config)) as daemon:
        before = daemon.wait_for(lambda samples: RELOADED in samples)[RELOADED]
        config.write_text("log: {level: debug}\n")
        subprocess.run(shlex.split(reload.replace("$MAINPID", str(daemon.process.pid))), check=True)
        daemon.wait_for(lambda samples: samples[RELOADED] > before)


def test_the_traces_directory_is_made_for_engines_of_any_user(tmp_path: Path) -> None:
    program = require_program("systemd-tmpfiles")
    config = tmp_path / "vllm-trace.conf"
    config.write_text((UNIT.parent / config.name).read_text().replace("root root", "- -"))
    subprocess.run([program, f"--root={tmp_path}", "--create", str(config)], check=True)
    (made,) = (tmp_path / "run").iterdir()
    assert (made.name, made.stat().st_mode & 0o7777) == ("vllm-trace", 0o1777)
