"""A diagnosis as text for people: findings, the worst first, and the time-aligned table."""

from rich.table import Table
from rich.text import Text

from exporter.analysis.diagnosis import Diagnosis
from exporter.analysis.diagnosis.finding import Finding, Verdict, moment
from exporter.analysis.diagnosis.timeline import Row
from exporter.commands.terminal import UNKNOWN, console, printable

_STYLES: dict[Verdict, str] = {"ok": "green", "watch": "yellow", "act": "bold red"}


def show(diagnosis: Diagnosis) -> None:
    """Print it."""
    out = console()
    out.print(_heading(diagnosis), soft_wrap=True)
    for finding in diagnosis.findings:
        out.print()
        out.print(_finding(finding), soft_wrap=True)
    if diagnosis.not_judged:
        out.print("\nnot judged, for want of data:")
        for missing in diagnosis.not_judged:
            out.print(printable(f"  {missing.cause}: {missing.reason}"), soft_wrap=True)
    if diagnosis.timeline:
        out.print()
        out.print(_table(diagnosis.timeline))


def _heading(diagnosis: Diagnosis) -> str:
    begin, end = (round(at_s * 1e9) for at_s in (diagnosis.first_unix_s, diagnosis.last_unix_s))
    seconds = diagnosis.last_unix_s - diagnosis.first_unix_s
    of = f" of the recording {diagnosis.replay}" if diagnosis.replay else ""
    return printable(
        f"{moment(begin)} to {moment(end)}: {seconds:.0f} s, {diagnosis.views} samples{of}"
    )


def _finding(finding: Finding) -> Text:
    text = Text()
    text.append(f"{finding.verdict:<6}", style=_STYLES[finding.verdict])
    text.append(finding.cause.replace("_", " "), style="bold")
    for line in finding.evidence:
        text.append(f"\n      {printable(line)}")
    if finding.advice:
        text.append(f"\n   -> {printable(finding.advice)}")
    return text


def _table(rows: tuple[Row, ...]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in (
        "time", "prompt tok/s", "gen tok/s", "GPU %", "memory GB", "KV usage %",
    ):  # fmt: skip
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            moment(round(row.ts_unix_s * 1e9)),
            _number(row.prompt_tokens_per_second),
            _number(row.generation_tokens_per_second),
            _number(row.gpu_utilization_ratio, 100),
            _number(row.memory_used_bytes, 1e-9, 1),
            _number(row.kv_usage_ratio, 100, 1),
        )
    return table


def _number(value: float | None, factor: float = 1, digits: int = 0) -> str:
    return UNKNOWN if value is None else f"{value * factor:.{digits}f}"
