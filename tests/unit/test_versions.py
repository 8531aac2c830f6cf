"""An older or newer plugin beside this exporter, and recordings of other versions.

The lines are those of a real engine (vLLM 0.25.1 on an H200), made older by taking fields away and
newer by adding and changing some.
"""

import json
import logging
import re
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from exporter.clock import SystemClock
from exporter.errors import RecordingError
from exporter.recordings import bundled_path
from exporter.records.trace import PluginStatus, TraceRecord
from exporter.sources.recording import Recording
from exporter.sources.trace import TraceSource
from exporter.sources.trace_lines import LineOrigin, ParsedLines, parse_lines

NEW_SHAPE = [["of tomorrow"]]
FIX = "; the plugin is of another version: update the older one, exporter or plugin"
LEFT_OUT = " (tide, weather): exporter 0.9.0 recorded them"
TYPES = ("engine", "kv", "torch")
REQUIRED = ("v", "ts_unix_ns", "replica", "engine", "interval_s", "rank")


def recorded_lines() -> dict[str, dict[str, Any]]:
    """The longest line of each type that a plugin wrote in a recorded session."""
    lines: dict[str, dict[str, Any]] = {}
    for text in sorted(bundled_path("h200_exhaustion").read_text().splitlines(), key=len):
        line = json.loads(text)
        if line["type"] in TYPES:
            lines[line["type"]] = line
    return lines


LINES = recorded_lines()


def parsed(*lines: dict[str, Any]) -> ParsedLines:
    return parse_lines([json.dumps(line).encode() for line in lines], LineOrigin("bare", 1))


def record(line: dict[str, Any]) -> TraceRecord:
    (only,) = parsed(line).records
    return only


def paths(line: dict[str, Any]) -> list[tuple[str, ...]]:
    """Every field of a line, also those inside groups, that need not be there."""
    found: list[tuple[str, ...]] = []
    for name, value in line.items():
        if name in ("type", *REQUIRED):
            continue
        found.append((name,))
        if isinstance(value, dict) and name != "capabilities":
            found += [(name, inner) for inner in value]
    return found


FIELDS = [
    pytest.param(kind, path, id=".".join((kind, *path)))
    for kind in TYPES
    for path in paths(LINES[kind])
]


def test_the_recorded_lines_are_whole() -> None:
    assert set(LINES) == set(TYPES)
    assert parsed(*LINES.values()).outcomes == Counter(accepted=3)
    assert len(FIELDS) > 60


class TestOlderPlugin:
    @pytest.mark.parametrize(("kind", "path"), FIELDS)
    def test_a_field_that_it_does_not_write_yet_is_unknown_and_all_others_are_read(
        self, kind: str, path: tuple[str, ...]
    ) -> None:
        older = json.loads(json.dumps(LINES[kind]))
        holder = older[path[0]] if len(path) == 2 else older
        del holder[path[-1]]
        was, now = msgspec.to_builtins(record(LINES[kind])), parsed(older)
        if now.outcomes == Counter(accepted=1):
            (read,) = now.records
            assert msgspec.to_builtins(read) == older | {"type": kind}
        else:  # a field without which its group means nothing
            assert now.void_fields == Counter([path[0]])
            assert msgspec.to_builtins(now.records[0]) == {
                name: value for name, value in was.items() if name != path[0]
            }

    @pytest.mark.parametrize("kind", TYPES)
    def test_the_least_that_a_line_needs(self, kind: str) -> None:
        least = {name: LINES[kind][name] for name in ("type", *REQUIRED) if name in LINES[kind]}
        assert parsed(least).outcomes == Counter(accepted=1)
        for name in least:
            without = {key: value for key, value in least.items() if key != name}
            assert not parsed(without).records, name

    def test_the_version_before_the_first_is_counted_as_unknown(self) -> None:
        for line in LINES.values():
            assert parsed(line | {"v": 0}).outcomes == Counter(unknown_version=1)


class TestNewerPlugin:
    @pytest.mark.parametrize("kind", TYPES)
    def test_fields_that_it_adds_pass(self, kind: str) -> None:
        newer = json.loads(json.dumps(LINES[kind]))
        for name, value in newer.items():
            if isinstance(value, dict) and name != "capabilities":
                value["new"] = NEW_SHAPE
        newer |= {"new": NEW_SHAPE, "newer": 1.5}
        assert parsed(newer).outcomes == Counter(accepted=1)
        assert record(newer) == record(LINES[kind])

    @pytest.mark.parametrize("kind", TYPES)
    def test_another_schema_version_is_refused_as_a_whole_whatever_it_holds(
        self, kind: str
    ) -> None:
        newer = parsed(LINES[kind] | {"v": 2}, {"v": 2, "type": kind}, {"v": 2, "type": "new"})
        assert newer.outcomes == Counter(unknown_version=3)
        assert newer.records == []

    def test_a_type_that_it_adds_is_counted_apart(self) -> None:
        newer = parsed(LINES["kv"] | {"type": "weather"}, LINES["kv"])
        assert newer.outcomes == Counter(unknown_type=1, accepted=1)

    @pytest.mark.parametrize(("kind", "path"), FIELDS)
    def test_a_field_whose_type_it_changes_is_void_with_its_group_and_nothing_else(
        self, kind: str, path: tuple[str, ...]
    ) -> None:
        newer = json.loads(json.dumps(LINES[kind]))
        holder = newer[path[0]] if len(path) == 2 else newer
        holder[path[-1]] = NEW_SHAPE
        now = parsed(newer)
        assert now.outcomes == Counter(partial=1)
        assert now.void_fields == Counter([path[0]])
        was = msgspec.to_builtins(record(LINES[kind]))
        was.pop(path[0])
        assert msgspec.to_builtins(now.records[0]) == was

    @pytest.mark.parametrize("kind", TYPES)
    @pytest.mark.parametrize("name", REQUIRED[1:-1])
    def test_a_line_whose_identity_it_changes_is_rejected(self, kind: str, name: str) -> None:
        newer = parsed(LINES[kind] | {name: NEW_SHAPE})
        assert (newer.outcomes, newer.records) == (Counter(rejected=1), [])

    def test_a_word_that_it_adds_is_unknown_and_the_rest_of_the_line_is_read(self) -> None:
        assert "paused" not in get_args(PluginStatus)
        newer = parsed(LINES["engine"] | {"status": "paused", "plugin_version": "0.9.0"})
        assert newer.void_fields == Counter(["status"])
        (facts,) = newer.records
        assert msgspec.to_builtins(facts) == {
            name: value for name, value in LINES["engine"].items() if name != "status"
        } | {"plugin_version": "0.9.0"}


def test_each_fault_of_a_file_is_said_once_and_another_version_with_the_fix(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "newer.jsonl"
    source = TraceSource([str(path)], 0.25, SystemClock())

    def append(*lines: object) -> None:
        with path.open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)

    try:
        append(LINES["kv"] | {"slots": NEW_SHAPE})
        with caplog.at_level(logging.WARNING):
            source.read()
            append(LINES["kv"] | {"v": 2})
            source.read()
            append(LINES["kv"] | {"v": 2}, LINES["torch"] | {"v": 3})
            reading = source.read()
    finally:
        source.close()
    assert reading is not None
    assert {name: count for name, count in reading.lines.items() if count} == {
        "partial": 1,
        "unknown_version": 3,
    }
    assert caplog.messages == [
        f"{path} has faulty lines: partial, invalid slots; from now on they are only counted",
        f"{path} has faulty lines: unknown_version; from now on they are only counted{FIX}",
    ]


HEADER = {
    "type": "recording",
    "v": 1,
    "name": "lab",
    "started_unix_ns": 1,
    "product_version": "0.9.0",
    "interval_s": 0.5,
}
DEVICE = {"type": "device", "ts_unix_ns": 5, "interval_s": 0.5, "devices": []}


class TestRecordings:
    def write(self, path: Path, *lines: object) -> Path:
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    def test_types_and_fields_of_a_later_version_are_left_out_and_said(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        path = self.write(
            tmp_path / "newer.jsonl",
            HEADER | {"colour": "red"},
            {"type": "weather", "v": 7},
            LINES["kv"] | {"new": NEW_SHAPE},
            {"type": "weather", "v": 7},
            {"type": "tide"},
            DEVICE | {"new": NEW_SHAPE},
        )
        with caplog.at_level(logging.WARNING):
            events = Recording.load(path).events
        assert [type(event.reading).__name__ for event in events] == [
            "TraceReading",
            "DeviceReading",
        ]
        assert caplog.messages == [
            f"{path}: left out 3 lines of types that this exporter does not know{LEFT_OUT}"
        ]

    @pytest.mark.parametrize(
        ("lines", "reason"),
        [
            pytest.param(
                [HEADER | {"v": 2}, DEVICE],
                "line 1: format version 2 of exporter 0.9.0, and this exporter reads version 1",
                id="format",
            ),
            pytest.param(
                [HEADER, LINES["kv"] | {"v": 2}, DEVICE],
                "line 2: format version 2, and this exporter reads version 1",
                id="trace schema",
            ),
            pytest.param(
                [HEADER, DEVICE, LINES["engine"] | {"status": "paused"}],
                r"line 3: Invalid enum value 'paused' - at `\$.status`",
                id="word",
            ),
        ],
    )
    def test_what_would_mean_something_else_is_refused_with_its_line(
        self, tmp_path: Path, lines: list[object], reason: str
    ) -> None:
        path = self.write(tmp_path / "newer.jsonl", *lines)
        with pytest.raises(RecordingError, match=f"^{re.escape(str(path))}: {reason}"):
            Recording.load(path)

    def test_a_recording_of_before_an_optional_field_is_read(self, tmp_path: Path) -> None:
        least = {name: LINES["kv"][name] for name in ("type", *REQUIRED) if name in LINES["kv"]}
        path = self.write(tmp_path / "older.jsonl", HEADER, least, DEVICE)
        assert len(Recording.load(path).events) == 2
