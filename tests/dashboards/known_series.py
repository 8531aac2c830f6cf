"""Every series that a query may name: ours, recorded ones, and vLLM's own, with their labels."""

from dataclasses import dataclass
from pathlib import Path

import yaml

from dashboards.vllm_names import VLLM_HISTOGRAMS, VLLM_LABELS, VLLM_NAMES
from exporter.views.metrics.table import FAMILIES

RULES = Path(__file__).parents[2] / "deploy/prometheus/rules"
TARGET_LABELS = frozenset({"job", "instance"})


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a name; `labels` None: not checked (recorded series)."""

    is_counter: bool
    labels: frozenset[str] | None


def known_series() -> dict[str, Known]:
    """By the name that a query uses: a histogram's are those of its parts."""
    known: dict[str, Known] = {}
    for family in FAMILIES:
        labels = TARGET_LABELS | set(family.labels)
        if family.kind == "histogram":
            known |= _parts(family.name, labels)
        else:
            known[family.name] = Known(family.kind == "counter", labels)
    for name, more in VLLM_NAMES.items():
        known[name] = Known(name.endswith("_total"), TARGET_LABELS | VLLM_LABELS | set(more))
    for name in VLLM_HISTOGRAMS:
        known |= _parts(name, TARGET_LABELS | VLLM_LABELS)
    return known | dict.fromkeys(recorded_names(), Known(is_counter=False, labels=None))


def recorded_names() -> list[str]:
    """Names that the rules make: one each that records, and one of all alerts."""
    return [
        rule.get("record", "ALERTS")
        for file in sorted(RULES.glob("*.yml"))
        for group in yaml.safe_load(file.read_text())["groups"]
        for rule in group["rules"]
    ]


def _parts(name: str, labels: frozenset[str]) -> dict[str, Known]:
    return {
        f"{name}_bucket": Known(True, labels | {"le"}),
        f"{name}_sum": Known(True, labels),
        f"{name}_count": Known(True, labels),
    }
