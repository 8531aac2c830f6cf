"""Trace lines to records: pure, knows no file; no input of any kind makes it raise.

A line that is exactly a record takes one typed decode. Every other line is read again as plain JSON
and judged group by group, where a group is one field of its record (`page_table`, `blocks`, …).
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct

from exporter.records.trace import (
    BARE_INTERVAL_S,
    SCHEMA_VERSION,
    EngineRecord,
    KvRecord,
    PageTable,
    PageTableRecord,
    TorchRecord,
    TraceRecord,
)
from exporter.sources.engine_log import stats_record

Outcome = Literal[
    "accepted", "partial", "ignored", "malformed", "unknown_type", "unknown_version", "rejected"
]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
"""What can become of a line.

accepted: a record, a bare page table or vLLM's stats line, with nothing wrong in it. partial: a
record of which at least one group was void. rejected: a record that lacks or spoils a field of its
identity (`v`, `ts_unix_ns`, `replica`, `engine`, `interval_s`, of torch also `rank`), or a bare
page table that is void. unknown_version, unknown_type: a record of another schema. malformed:
begins with ``{`` (after what may stand before JSON) and is no JSON, nests too deep for a parser, or
is a run of NUL bytes. ignored: anything else, such as other log lines and blank lines.
"""

_decode = msgspec.json.Decoder(TraceRecord).decode

_STRUCTS: Mapping[str, type[TraceRecord]] = {
    "engine": EngineRecord,
    "kv": KvRecord,
    "torch": TorchRecord,
    "page_table": PageTableRecord,
}
_FIELDS = {struct: msgspec.structs.fields(struct) for struct in _STRUCTS.values()}
_CHECKED_TOGETHER = ("allocated_bytes", "reserved_bytes")  # by TorchRecord, the only such check

# A byte order mark, NULs of a hole in the file, colours, and vLLM's "(EngineCore pid=123) ".
_BEFORE_JSON = re.compile(r"(?:[\ufeff\0\s]++|\x1b\[[\d;]*m|\([^()]{1,80} pid=\d+\))*+")


class LineOrigin(Struct, frozen=True):
    """What a bare line and a log line do not say themselves: whose they are and when they came."""

    replica: str
    ts_unix_ns: int


class ParsedLines(Struct, frozen=True):
    """Records in the order of their lines, lines by outcome, and void groups by field name."""

    records: list[TraceRecord]
    outcomes: Counter[Outcome]
    void_fields: Counter[str]


def parse_lines(lines: Sequence[bytes], origin: LineOrigin) -> ParsedLines:
    """Read lines of one file, each UTF-8 without its newline.

    A record is made of the fields that are valid on their own: a field that is bad, negative, not
    finite or contradictory is void and left None. A bare line, `{"page_table": {…}}` alone or in a
    JSON log line at its top or one level down, gives a `KvRecord` of only that group, whatever else
    it holds. vLLM's stats line gives one, too, in whatever format it is logged.
    """
    records: list[TraceRecord] = []
    outcomes: Counter[Outcome] = Counter()
    void_fields: Counter[str] = Counter()
    append = records.append
    for line in lines:
        try:
            append(_decode(line))
        except (msgspec.DecodeError, RecursionError):
            record, outcome, void = _parse_by_group(line.decode(errors="replace"), origin)
            outcomes[outcome] += 1
            void_fields.update(void)
            if record is not None:
                append(record)
    outcomes["accepted"] += len(lines) - outcomes.total()
    return ParsedLines(records, outcomes, void_fields)


_Parsed = tuple[TraceRecord | None, Outcome, Sequence[str]]


def _parse_by_group(line: str, origin: LineOrigin) -> _Parsed:
    stats = stats_record(line, origin.replica, origin.ts_unix_ns)
    if stats is not None:
        return stats, "accepted", ()
    text = _BEFORE_JSON.sub("", line, count=1)
    if not text.startswith("{"):
        return None, "malformed" if "\0" in line and not text else "ignored", ()
    try:
        value = json.loads(text, parse_int=_integer)
    except (ValueError, RecursionError):
        return None, "malformed", ()
    type_name, version = value.get("type"), value.get("v")
    struct = _STRUCTS.get(type_name) if isinstance(type_name, str) else None
    if struct is None and ("type" not in value or "v" not in value):
        return _bare(value, origin)
    if type(version) is int and version != SCHEMA_VERSION:
        return None, "unknown_version", ()
    if struct is None:
        return None, "unknown_type", ()
    return _record(struct, value)


def _record(struct: type[TraceRecord], value: Mapping[str, object]) -> _Parsed:
    fields: dict[str, Any] = {}
    void: list[str] = []
    for field in _FIELDS[struct]:
        if field.name in value or field.required:
            try:
                fields[field.name] = _valid(value.get(field.name), field.type)
            except (msgspec.ValidationError, UnicodeEncodeError):
                void.append(field.name)
    if any(field.required and field.name in void for field in _FIELDS[struct]):
        return None, "rejected", void
    try:
        record = struct(**fields)
    except ValueError:
        void += _CHECKED_TOGETHER
        record = struct(**{name: fields[name] for name in fields if name not in _CHECKED_TOGETHER})
    return record, "partial" if void else "accepted", void


def _bare(value: Mapping[str, object], origin: LineOrigin) -> _Parsed:
    holders: Iterable[object] = (value, *value.values())
    for holder in holders:
        if isinstance(holder, dict) and "page_table" in holder:
            break
    else:
        return None, "ignored", ()
    try:
        page_table = _valid(holder["page_table"], PageTable)
    except msgspec.ValidationError:
        return None, "rejected", ("page_table",)
    record = KvRecord(
        v=SCHEMA_VERSION,
        ts_unix_ns=origin.ts_unix_ns,
        replica=origin.replica,
        engine="",
        interval_s=BARE_INTERVAL_S,
        model_name="",
        page_table=page_table,
    )
    return record, "accepted", ()


def _valid(value: object, field_type: Any) -> Any:  # noqa: ANN401 (its type is `field_type`)
    """`value` as `field_type`.

    Raises: msgspec.ValidationError: it is none. UnicodeEncodeError: it holds half of a surrogate
    pair, which JSON can spell and no label can carry.
    """
    converted = msgspec.convert(value, field_type)
    msgspec.json.encode(converted)
    return converted


def _integer(digits: str) -> int | float:
    """A JSON integer; one of more than 64 bits is as unusable as infinity (and slow to read)."""
    return int(digits) if len(digits) <= 20 else math.inf
