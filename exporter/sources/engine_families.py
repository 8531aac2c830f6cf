"""vLLM's own /metrics to figures of its engines: pure, knows no HTTP and no records.

Names come with ``vllm:`` or ``vllm_`` before them and with or without ``_total`` after them: some
collectors change both. What a family is called in which version stands in `NAMES`.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping

from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families

MAX_COUNT = 2**53

NAMES: Mapping[str, tuple[str, ...]] = {
    "usage": ("kv_cache_usage_perc", "gpu_cache_usage_perc"),
    "running": ("num_requests_running",),
    "waiting": ("num_requests_waiting",),
    "waiting_by_reason": ("num_requests_waiting_by_reason",),
    "query_tokens": ("prefix_cache_queries", "gpu_prefix_cache_queries"),
    "hit_tokens": ("prefix_cache_hits", "gpu_prefix_cache_hits"),
    "preemptions": ("num_preemptions",),
    "sleep_state": ("engine_sleep_state",),
    "cache_config": ("cache_config_info",),
    "swap_usage": ("cpu_cache_usage_perc",),
}
"""Figure → what vLLM calls it, the newest name first; an older one counts where no newer is told.

`gpu_` was dropped after 0.11; `swap_usage` is only told by the V0 engine (until 0.10).
"""
EXPECTED = ("usage", "running", "waiting")
"""What every version tells."""

_FIGURES = {name: figure for figure, names in NAMES.items() for name in names}
_LINE = re.compile(
    rf"^vllm[:_](?P<name>{'|'.join(_FIGURES)})(?:_total)?[{{ \t].*$", re.MULTILINE | re.ASCII
)
_COUNTED_IN_BLOCKS = re.compile(
    r"^# HELP vllm[:_](?:gpu_)?prefix_cache_(?:queries|hits)\S* .*\bblocks\b", re.MULTILINE
)

Labels = Mapping[str, str]
Series = list[tuple[Labels, float]]


def _is_count(value: float) -> bool:
    return 0 <= value <= MAX_COUNT and value.is_integer()


def _highest(values: list[float]) -> float:
    """NaN if one of them is."""
    return math.nan if any(map(math.isnan, values)) else max(values)


class Exposition(Struct, frozen=True):
    """What /metrics says: engines by data-parallel rank, in order, and faults by their name."""

    engines: dict[str, "EngineFamilies"]
    faults: Counter[str]


class EngineFamilies:
    """The series of one engine; all API servers' together.

    Several series of one gauge (one for each API server's ``pid``, most of them never set) count as
    their highest, of one counter as their sum. A figure that is not told or makes no sense is None,
    the latter counted in `faults`.
    """

    def __init__(self, faults: Counter[str]) -> None:
        self._series: dict[str, Series] = {}
        self._faults = faults

    def add(self, name: str, labels: Labels, value: float) -> None:
        """Take one series of the family `name`, as it stands in `NAMES`."""
        self._series.setdefault(name, []).append((labels, value))

    def model_name(self) -> str:
        """As vLLM spells it; several, separated by commas, if series of the engine differ."""
        names = {
            labels.get("model_name", "") for series in self._series.values() for labels, _ in series
        }
        return ",".join(sorted(names - {""}))[:512]

    def is_told(self, figure: str) -> bool:
        """Whether there is any series of the figure."""
        return bool(self.series(figure))

    def series(self, figure: str) -> Series:
        """All series of a figure, by its newest name."""
        return next((self._series[name] for name in NAMES[figure] if name in self._series), [])

    def ratio(self, figure: str) -> float | None:
        """A gauge from 0 to 1."""
        return self._checked(figure, self._values(figure), _highest, lambda value: 0 <= value <= 1)

    def requests(self, figure: str) -> int | None:
        """A gauge of whole requests."""
        return _whole(self._checked(figure, self._values(figure), _highest))

    def requests_by(self, figure: str, label: str) -> int | None:
        """A gauge of whole requests that is told for each value of a label, as their sum."""
        by_value: dict[str, list[float]] = defaultdict(list)
        for labels, value in self.series(figure):
            by_value[labels.get(label, "")].append(value)
        highest = [_highest(values) for values in by_value.values()]
        return _whole(self._checked(figure, highest, sum))

    def count(self, figure: str) -> int | None:
        """A counter."""
        return _whole(self._checked(figure, self._values(figure), sum))

    def fact(self, label: str) -> str | None:
        """What the label of `cache_config_info` says; None where it says nothing, or two things."""
        told = {labels.get(label, "None") for labels, _ in self.series("cache_config")}
        (fact,) = told if len(told) == 1 else {"None"}
        return None if fact in ("None", "") else fact

    def _values(self, figure: str) -> list[float]:
        return [value for _, value in self.series(figure)]

    def _checked(
        self,
        figure: str,
        values: list[float],
        reduce: Callable[[list[float]], float],
        is_valid: Callable[[float], bool] = _is_count,
    ) -> float | None:
        if not values:
            return None
        value = reduce(values)
        if is_valid(value):
            return value
        self._faults[f"invalid_{figure}"] += 1
        return None


def read_exposition(body: bytes) -> Exposition:
    """Sort the vLLM families of a text exposition by engine; without any, there are no engines.

    Without an ``engine`` label (old versions) the engine is "0". Prefix-cache counters that their
    HELP says to be in blocks (until 0.8) are left out: ours are in tokens.
    """
    text = body.decode("utf-8", "replace")
    are_blocks = _COUNTED_IN_BLOCKS.search(text) is not None
    faults: Counter[str] = Counter()
    engines: dict[str, EngineFamilies] = {}
    for line in _LINE.finditer(text):
        name = line["name"]
        if are_blocks and _FIGURES[name] in ("query_tokens", "hit_tokens"):
            continue
        try:
            (family,) = text_string_to_metric_families(line[0] + "\n")
            (sample,) = family.samples
            value = float(sample.value)  # the parser makes 17 an int, however long
        except (ValueError, OverflowError):
            faults["malformed_line"] += 1
            continue
        engine = sample.labels.get("engine") or "0"
        if engine not in engines:
            engines[engine] = EngineFamilies(faults)
        engines[engine].add(name, sample.labels, value)
    return Exposition(dict(sorted(engines.items())), faults)


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
