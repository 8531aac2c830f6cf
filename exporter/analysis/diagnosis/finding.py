"""What a diagnosis says, and how its figures are worded. Knows no causes' rules."""

from datetime import UTC, datetime
from typing import Literal

from msgspec import Struct

Cause = Literal[
    "kv_exhausted",
    "prefix_cache",
    "allocator",
    "co_tenant",
    "scattered_tables",
    "uneven_ranks",
    "throttling",
    "blind_spot",
]
Verdict = Literal["ok", "watch", "act"]
SEVERITY: dict[Verdict, int] = {"act": 0, "watch": 1, "ok": 2}
"""The worst first.

`ok`: looked at, and fine. `watch`: keep an eye on it. `act`: something should be changed."""


class Finding(Struct, frozen=True, kw_only=True):
    """One cause that was looked at.

    `evidence`: lines with the figures and times that the verdict rests on, as they were read.
    `advice`: what to change; None when there is nothing to do.
    """

    cause: Cause
    verdict: Verdict
    evidence: tuple[str, ...]
    advice: str | None = None


class NotJudged(Struct, frozen=True):
    """A cause of which nothing is claimed, and the data that would be needed."""

    cause: Cause
    reason: str


class Judged(Struct, frozen=True, kw_only=True):
    """What one cause's rules say of one engine, worker, GPU or process; see `Finding`."""

    subject: str
    verdict: Verdict = "ok"
    evidence: tuple[str, ...]
    advice: str | None = None


class Unjudged(Struct, frozen=True):
    """Why one cause's rules say nothing of an engine, worker or GPU."""

    subject: str
    reason: str


Judgement = Judged | Unjudged


def gigabytes(count_bytes: float) -> str:
    """Bytes in units of 1e9, for people."""
    return f"{count_bytes / 1e9:.2f} GB"


def moment(ts_unix_ns: int) -> str:
    """A time as ISO 8601 in UTC, to the second; beyond the year 9999 as Unix seconds."""
    unix_s = ts_unix_ns // 1_000_000_000
    try:
        return f"{datetime.fromtimestamp(unix_s, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        return f"{unix_s} s"


def engine_name(replica: str, engine: str) -> str:
    """How evidence calls an engine."""
    return f"engine {replica}/{engine}"


def rank_name(replica: str, engine: str, rank: int) -> str:
    """How evidence calls a worker."""
    return f"{engine_name(replica, engine)} rank {rank}"
