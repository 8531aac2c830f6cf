"""The unit as systemd reads it."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.deploy.conftest import ROOT
from tests.deploy.flags import parsed
from tests.programs import require_program

UNIT = ROOT / "deploy/systemd/vllm-memory-exporter.service"
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
