"""Conflicts over a GPU's memory between an engine and what runs beside it."""

from typing import Literal

from msgspec import Struct

ConflictKind = Literal["co_tenant", "pressure", "margin"]
"""`co_tenant`: a process of no engine appeared or grew on an engine's GPU. `pressure`: the GPU is
full, and processes of no engine grew. `margin`: a worker's next peak would run out of memory."""


class ProcessRow(Struct, frozen=True, kw_only=True):
    """One process on one GPU when a conflict began; None: not known, or not looked up.

    `command` is its command line, redacted.
    """

    uuid: str
    pid: int
    name: str | None = None
    used_bytes: int | None = None
    start_unix_s: float | None = None
    command: str | None = None


class Conflict(Struct, frozen=True, kw_only=True):
    """One conflict, from its onset at `ts_unix_ns` to `ended_unix_ns` (None: still going on).

    `id` counts from 1. `uuid`: the GPU it is counted on; for a co-tenant the one where it grew
    most. `pid`: the co-tenant, under pressure the process that grew most, or the worker without
    margin. `used_bytes`: what `pid` holds on that GPU; `growth_bytes`: largest growth so far, by
    uuid (a co-tenant's own, under pressure that of all processes of no engine).
    `margin_bytes`: the negative margin, in a `margin` conflict only. `processes`: all on that GPU,
    and `pid` on other GPUs.
    """

    id: int
    ts_unix_ns: int
    kind: ConflictKind
    uuid: str
    pid: int | None
    used_bytes: int | None
    growth_bytes: dict[str, int]
    margin_bytes: int | None
    processes: tuple[ProcessRow, ...]
    ended_unix_ns: int | None = None
