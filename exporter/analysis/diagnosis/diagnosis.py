"""From what was seen to findings by cause; claims no cause without the data for it."""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from exporter.analysis.diagnosis import (
    allocator,
    blind_spot,
    co_tenant,
    kv_exhausted,
    prefix_cache,
    scattered_tables,
    throttling,
    uneven_ranks,
)
from exporter.analysis.diagnosis.finding import (
    SEVERITY,
    Cause,
    Finding,
    Judged,
    Judgement,
    NotJudged,
    Unjudged,
)
from exporter.analysis.diagnosis.history import History
from exporter.analysis.diagnosis.timeline import Row, rows

MAX_EVIDENCE_LINES = 8

_RULES: dict[Cause, Callable[[History], Iterator[Judgement]]] = {
    "kv_exhausted": kv_exhausted.judged,
    "co_tenant": co_tenant.judged,
    "allocator": allocator.judged,
    "prefix_cache": prefix_cache.judged,
    "scattered_tables": scattered_tables.judged,
    "uneven_ranks": uneven_ranks.judged,
    "throttling": throttling.judged,
    "blind_spot": blind_spot.judged,
}


class Diagnosis(Struct, frozen=True, kw_only=True):
    """Findings, the worst first; `not_judged`: causes for which some data were missing.

    `replay`: name of the recording that was looked at. `timeline`: at most 20 rows.
    """

    findings: tuple[Finding, ...]
    not_judged: tuple[NotJudged, ...]
    timeline: tuple[Row, ...]
    replay: str | None
    first_unix_s: float
    last_unix_s: float
    views: int

    @property
    def is_ok(self) -> bool:
        """Whether nothing was found that should be watched or changed."""
        return all(finding.verdict == "ok" for finding in self.findings)


def diagnose(history: History) -> Diagnosis:
    """What the history says about each cause.

    A cause has one finding for each engine, worker, GPU or process that it concerns, or a single
    one when all of them are fine.
    """
    findings: list[Finding] = []
    not_judged: list[NotJudged] = []
    for cause, judged in _RULES.items():
        judgements = list(judged(history))
        findings += _findings(cause, [each for each in judgements if isinstance(each, Judged)])
        not_judged += _gaps(cause, [each for each in judgements if isinstance(each, Unjudged)])
    return Diagnosis(
        findings=tuple(sorted(findings, key=lambda finding: SEVERITY[finding.verdict])),
        not_judged=tuple(not_judged),
        timeline=tuple(rows(history.timeline)),
        replay=history.replay,
        first_unix_s=history.first_unix_ns / 1e9,
        last_unix_s=history.last_unix_ns / 1e9,
        views=history.views,
    )


def _findings(cause: Cause, judged: Sequence[Judged]) -> Iterator[Finding]:
    """What is not fine, each for itself; else all that is fine as one finding."""
    wrong = [each for each in judged if each.verdict != "ok"]
    for each in wrong:
        first, *others = each.evidence
        yield Finding(
            cause=cause,
            verdict=each.verdict,
            evidence=(_of(each.subject, first), *others),
            advice=each.advice,
        )
    if judged and not wrong:
        lines = [_of(each.subject, "; ".join(each.evidence)) for each in judged]
        yield Finding(cause=cause, verdict="ok", evidence=_shortened(lines))


def _gaps(cause: Cause, unjudged: Sequence[Unjudged]) -> Iterator[NotJudged]:
    """What is missing, once for all that lack it."""
    subjects: dict[str, list[str]] = {}
    for each in unjudged:
        subjects.setdefault(each.reason, []).append(each.subject)
    for reason, of in subjects.items():
        yield NotJudged(cause, _of(", ".join(_shortened(of)), reason))


def _of(subject: str, line: str) -> str:
    return f"{subject}: {line}" if subject else line


def _shortened(lines: Sequence[str]) -> tuple[str, ...]:
    if len(lines) <= MAX_EVIDENCE_LINES:
        return tuple(lines)
    left_out = len(lines) - MAX_EVIDENCE_LINES + 1
    return (*lines[: MAX_EVIDENCE_LINES - 1], f"and {left_out} more like these")
