"""A viewer of /api/live that keeps to docs/live-protocol.md and knows no more of the server."""

import http.client
import json
import struct
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

MISSING = 65535
MAX_MARKS = 100


@dataclass(frozen=True)
class Event:
    """One server-sent event; `id` is None where it has none."""

    name: str
    id: str | None
    data: Any


@dataclass
class Shown:
    """What a viewer shows: `columns` columns up to `column`, oldest first, each a code a row."""

    layout: dict[str, Any] = field(default_factory=dict)
    head: dict[str, Any] = field(default_factory=dict)
    column: int = -1
    unix_ms: int = 0
    cells: list[list[int]] = field(default_factory=list)
    preempted: dict[tuple[int, int], int] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    marks: dict[int, dict[str, Any]] = field(default_factory=dict)

    def apply(self, event: Event) -> None:
        """Take an event of any name."""
        if event.name == "full":
            self._begin(event.data)
        if event.name in ("full", "delta"):
            self._proceed(event.data)

    def _begin(self, data: dict[str, Any]) -> None:
        of_delta = ("column", "unix_ms", "cells", "preempted", "state", "marks", "layout")
        self.head = {name: value for name, value in data.items() if name not in of_delta}
        self.layout = data["layout"]
        self.column = data["column"]
        self.cells = [[MISSING] * len(self.layout["rows"]) for _ in range(data["columns"])]
        self.preempted, self.state, self.marks = {}, {}, {}

    def _proceed(self, data: dict[str, Any]) -> None:
        rows, kept = len(self.layout["rows"]), len(self.cells)
        codes = codes_of(data["cells"])
        count = len(codes) // rows if rows else data["column"] - self.column + 1
        columns = [codes[at * rows : (at + 1) * rows] for at in range(count)]
        for _ in range(min(data["column"] - self.column, kept)):
            self.cells = [*self.cells[1:], [MISSING] * rows]
        self.cells[kept - count :] = columns
        self.column, self.unix_ms = data["column"], data["unix_ms"]
        oldest, begin = self.column - kept + 1, self.column - count + 1
        for column, row in list(self.preempted):
            if column < oldest or column >= begin:
                del self.preempted[column, row]
        for column, row, number in data["preempted"]:
            self.preempted[column, row] = number
        for key, value in data["state"].items():
            if value is None:
                self.state.pop(key, None)
            else:
                self.state[key] = codes_of(value) if isinstance(value, str) else value
        self.marks.update({mark["id"]: mark for mark in data["marks"]})
        for number in sorted(self.marks)[:-MAX_MARKS]:
            del self.marks[number]


def codes_of(text: str) -> list[int]:
    """Codes as numbers; MISSING stays."""
    codes = b64decode(text)
    return list(struct.unpack(f"<{len(codes) // 2}H", codes))


def ratio_of(code: int) -> float | None:
    """What a code says; None when it is unknown."""
    return None if code == MISSING else code / 10_000


def parsed(text: bytes) -> Event | None:
    """One block of the stream; None when it is no event."""
    fields = dict(line.split(": ", 1) for line in text.decode().splitlines() if ": " in line)
    if "data" not in fields:
        return None
    return Event(fields["event"], fields.get("id"), json.loads(fields["data"]))


class Viewer:
    """An open stream; of an answer that is none `status` and `text` are kept."""

    def __init__(self, address: str, last_event_id: str | None = None, **query: str) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=30)
        headers = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
        path = f"/api/live?{urlencode(query)}" if query else "/api/live"
        self._connection.request("GET", path, headers=headers)
        self._response = self._connection.getresponse()
        self.status = self._response.status
        self.headers = {name.lower(): value for name, value in self._response.getheaders()}
        self.text = self._response.read().decode() if self.status != 200 else ""
        self.shown = Shown()
        self.last_id = last_event_id

    def __enter__(self) -> "Viewer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Go."""
        self._response.close()
        self._connection.close()

    def blocks(self) -> Iterator[bytes]:
        """The stream's blocks until it ends."""
        lines: list[bytes] = []
        while line := self._response.readline():
            if line != b"\n":
                lines.append(line)
                continue
            yield b"".join(lines)
            lines = []

    def events(self) -> Iterator[Event]:
        """The stream's events, each applied to `shown` before it is given."""
        for block in self.blocks():
            if (event := parsed(block)) is not None:
                self.last_id = event.id or self.last_id
                self.shown.apply(event)
                yield event
