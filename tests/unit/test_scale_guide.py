"""docs/scale.md: what it says to drop exists and is not needed, and its configuration is valid."""

import re
import subprocess
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from exporter.views.metrics.table import FAMILIES
from tests.programs import require_program

ROOT = Path(__file__).parents[2]
BLOCKS: list[dict[str, Any]] = [
    yaml.safe_load(block)
    for block in re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/scale.md").read_text(), re.DOTALL)
]
DROPS = [
    re.compile(rule["regex"])
    for block in BLOCKS
    for rule in block.get("metric_relabel_configs", ())
]
SERIES = [
    family.name + suffix
    for family in FAMILIES
    for suffix in (("_bucket", "_sum", "_count") if family.kind == "histogram" else ("",))
]


def test_there_are_two_steps() -> None:
    assert len(DROPS) == 2


@pytest.mark.parametrize("step", DROPS, ids=["first", "second"])
def test_everything_that_a_step_names_exists(step: re.Pattern[str]) -> None:
    for alternative in alternatives(step.pattern):
        assert any(re.fullmatch(alternative, name) for name in SERIES), alternative


def test_nothing_that_the_first_step_drops_is_asked_for_by_a_rule_or_the_boards_of_the_whole() -> (
    None
):
    dropped = [name for name in SERIES if DROPS[0].fullmatch(name)]
    rules = sorted((ROOT / "deploy/prometheus/rules").glob("*.yml"))
    boards = [ROOT / f"dashboards/vllm-memory-{name}.json" for name in ("fleet", "kv")]
    assert rules
    for path in (*rules, *boards):
        asked = set(re.findall(r"[a-z0-9_]+", path.read_text()))
        assert not asked & set(dropped), path


def test_promtool_accepts_the_configuration(tmp_path: Path) -> None:
    promtool = require_program("promtool")
    (agent,) = (deepcopy(block) for block in BLOCKS if "scrape_configs" in block)
    del agent["scrape_configs"][0]["kubernetes_sd_configs"]  # Debian's build knows no Kubernetes
    for drops in (block for block in BLOCKS if "metric_relabel_configs" in block):
        agent["scrape_configs"].append(
            {"job_name": f"drops-{len(agent['scrape_configs'])}"} | drops
        )
    agent["remote_write"] += [
        block["remote_write"][0] | {"url": "http://recorded.example"}
        for block in BLOCKS
        if "scrape_configs" not in block and "remote_write" in block
    ]
    config = tmp_path / "agent.yml"
    config.write_text(yaml.safe_dump(agent))
    check = [promtool, "check", "config", "--agent", str(config)]
    result = subprocess.run(check, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_pods_that_have_ended_are_no_exporters_that_are_down() -> None:
    (agent,) = (block for block in BLOCKS if "scrape_configs" in block)
    (job,) = agent["scrape_configs"]
    rules = {tuple(rule["source_labels"]): rule for rule in job["relabel_configs"]}
    drop = rules[("__meta_kubernetes_pod_phase",)]
    assert (drop["action"], set(drop["regex"].split("|"))) == ("drop", {"Succeeded", "Failed"})


def alternatives(pattern: str) -> list[str]:
    """The names that a pattern spells out: one for each choice of each of its groups."""
    depth, parts = 0, [""]
    for char in pattern:
        depth += (char == "(") - (char == ")")
        if char == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    if len(parts) > 1:
        return [name for part in parts for name in alternatives(part)]
    group = re.search(r"\(([^()]*(?:\([^()]*\)[^()]*)*)\)(\??)", pattern)
    if group is None:
        return [pattern]
    choices = alternatives(group[1]) + [""] * bool(group[2])
    before, after = pattern[: group.start()], pattern[group.end() :]
    return [name for choice in choices for name in alternatives(before + choice + after)]
