"""A query over recorded series, written out as the query that would be needed without the rules."""

import re
from dataclasses import dataclass
from pathlib import Path

import yaml

_RECORDED = re.compile(r"([a-z_]+:[a-z0-9_:]+)(\{[^}]*\})?")
_EQUAL = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True)
class Rule:
    """A recording rule: what it is named, which labels it adds, and what it asks."""

    record: str
    labels: dict[str, str]
    expr: str


def recording_rules(directory: Path) -> list[Rule]:
    """The recording rules of every file, in their order."""
    return [
        Rule(rule["record"], rule.get("labels", {}), rule["expr"].strip())
        for path in sorted(directory.glob("*.yml"))
        for group in yaml.safe_load(path.read_text())["groups"]
        for rule in group["rules"]
        if "record" in rule
    ]


def unrecorded(query: str, rules: list[Rule]) -> str:
    """`query` with each recorded series replaced by the expressions of its rules.

    Other matchers than equalities on a label that a rule adds are left out: asked for all jobs.
    """
    known = {rule.record for rule in rules}

    def written_out(match: re.Match[str]) -> str:
        name, wanted = match[1], dict(_EQUAL.findall(match[2] or ""))
        if name not in known:
            return match[0]
        exprs = [
            unrecorded(rule.expr, rules)
            for rule in rules
            if rule.record == name
            and all(rule.labels.get(label, value) == value for label, value in wanted.items())
        ]
        return "(" + " or ".join(f"({expr})" for expr in exprs) + ")"

    return _RECORDED.sub(written_out, query)
