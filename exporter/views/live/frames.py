"""Events of the live stream as bytes: pure functions of what is in them."""

import sys
from array import array
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from exporter import __version__
from exporter.views.live.rows import Layout
from exporter.views.live.state import Mark, Value, packed

PROTOCOL = 1
RETRY_MS = 1000


class Delta(Struct, frozen=True, kw_only=True):
    """What happened up to `column`; `cells` is base64 of whole columns, oldest first."""

    column: int
    unix_ms: int
    cells: str
    preempted: Sequence[tuple[int, int, int]]
    state: dict[str, Value | None]
    marks: Sequence[Mark]


class Full(Delta, frozen=True, kw_only=True):
    """All that a viewer needs; `cells` has all `columns` columns."""

    protocol: int = PROTOCOL
    version: str = __version__
    metric: str
    window: str
    replay: str | None
    interval_s: float
    column_s: float
    columns: int
    layout: Layout


class Idle(Struct, frozen=True, kw_only=True):
    """No tick came; `age_s`: of the newest sample, None before the first."""

    age_s: float | None
    is_stale: bool


_encoder = msgspec.json.Encoder()


def cells_text(codes: "array[int]") -> str:
    """Codes as they travel: little-endian on every machine."""
    if sys.byteorder == "big":
        codes = codes[:]
        codes.byteswap()
    return packed(codes.tobytes())


def event(of: Full | Delta | Idle, identifier: str | None = None) -> bytes:
    """One server-sent event; JSON has no raw newline, so its data is one line."""
    name = type(of).__name__.lower()
    head = f"event: {name}\n" if identifier is None else f"event: {name}\nid: {identifier}\n"
    return head.encode() + b"data: " + _encoder.encode(of) + b"\n\n"
