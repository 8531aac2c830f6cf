"""From what was seen to findings by cause; claims no cause without the data for it."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from exporter.analysis.diagnosis import (
    allocator,
    blind_spot,
    co_tenant,
    kv_exhausted,
    prefix_cache,
    scattered_tables,
    throttling,
)
from exporter.analysis.diagnosis.finding import Finding, Judgement, NotJudged, Verdict
from exporter.analysis.diagnosis.history import History
from exporter.analysis.diagnosis.timeline import Row, rows

MAX_EVIDENCE_LINES = 8

SEVERITY: dict[Verdict, int] = {"act": 0, "watch": 1, "ok": 2}

_CAUSES = (
    kv_exhausted,
    co_tenant,
    allocator,
    prefix_cache,
    scattered_tables,
    throttling,
    blind_spot,
)


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
    for cause in _CAUSES:
        judgements: list[Judgement] = list(cause.judged(history))
        findings += _told(each for each in judgements if isinstance(each, Finding))
        not_judged += [each for each in judgements if isinstance(each, NotJudged)]
    return Diagnosis(
        findings=tuple(sorted(findings, key=lambda finding: SEVERITY[finding.verdict])),
        not_judged=tuple(not_judged),
        timeline=tuple(rows(history.timeline)),
        replay=history.replay,
        first_unix_s=history.first_unix_ns / 1e9,
        last_unix_s=history.last_unix_ns / 1e9,
        views=history.views,
    )


def _told(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Of one cause: what is not fine, each for itself; else all that is fine as one finding."""
    found = list(findings)
    wrong = [finding for finding in found if finding.verdict != "ok"]
    if wrong or not found:
        yield from wrong
        return
    evidence = [line for finding in found for line in finding.evidence]
    if len(evidence) > MAX_EVIDENCE_LINES:
        left_out = len(evidence) - MAX_EVIDENCE_LINES + 1
        evidence[MAX_EVIDENCE_LINES - 1 :] = [f"and {left_out} more lines like these"]
    yield Finding(cause=found[0].cause, verdict="ok", evidence=tuple(evidence))
