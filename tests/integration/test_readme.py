"""README says what the program says: its commands are run, its links lead somewhere."""

import re
import shlex
from pathlib import Path

import pytest

from tests.daemon import run

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
COMMANDS = re.findall(r"^```\n\$ vllm-memory-exporter (.+)\n([\s\S]+?)\n```$", README, re.MULTILINE)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize(("command", "shown"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_a_command_gives_what_the_readme_shows(command: str, shown: str) -> None:
    result = run(*shlex.split(command))
    lines = [line.rstrip() for line in (result.stdout + result.stderr).splitlines()]
    expected = shown.splitlines()
    if expected[-1] == "…":
        expected.pop()
        lines = lines[: len(expected)]
    assert lines == expected


def test_the_readme_shows_commands() -> None:
    assert len(COMMANDS) == 3


def test_the_shown_metrics_are_those_of_the_capture() -> None:
    scrape = (ROOT / "tests/golden/h200_complete_scrape.txt").read_text().splitlines()
    captured = [line for line in scrape if 'device="cuda:0"' in line]
    [shown] = re.findall(r"```\n(gpu_info[\s\S]+?)\n```", README)
    assert shown.splitlines() == captured


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []
