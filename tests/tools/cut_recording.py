"""Cuts a recording of a real machine: python -m tests.tools.cut_recording SOURCE OUT --help.

Identifiers are replaced by invented ones. The newest facts of each process before the cut go to its
beginning, and what else its writers told last, so that it starts with all that is known. They get
the time of the beginning: those of a second lap are then younger than those of the first.
"""

import argparse
from pathlib import Path

from msgspec.structs import replace

from exporter.records.codec import RecordingHeader, RecordingLine, decode_line, encode_line
from exporter.records.device import DeviceReading
from exporter.records.device_detail import DetailReading
from exporter.records.trace import EngineRecord, KvRecord, TorchRecord
from tests.gpu.anonymous import anonymous

TOLD = (EngineRecord, KvRecord, TorchRecord, DetailReading)
TOLD_INTERVALS = 1.5
"""A writer is late by less."""


def cut(lines: list[RecordingLine], begin_s: float, end_s: float) -> list[RecordingLine]:
    """Lines with a time in [begin_s, end_s] (Unix seconds), what was known before them first."""
    known: dict[tuple[type, int | None], RecordingLine] = {}
    kept: list[RecordingLine] = []
    for line in lines:
        if isinstance(line, RecordingHeader):
            continue
        at_s = line.ts_unix_ns / 1e9
        if at_s < begin_s and isinstance(line, TOLD):
            if at_s + TOLD_INTERVALS * line.interval_s >= begin_s:
                timed = replace(line, ts_unix_ns=round(begin_s * 1e9))
                known[type(line), getattr(line, "pid", None)] = timed
        elif begin_s <= at_s <= end_s and not (
            isinstance(line, DeviceReading) and not line.devices
        ):
            kept.append(line)
    return [*known.values(), *kept]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--begin", type=float, required=True, help="Unix seconds")
    parser.add_argument("--end", type=float, required=True, help="Unix seconds")
    parser.add_argument("--note", required=True, help="where the data comes from")
    parser.add_argument("--rename", nargs=2, action="append", default=[], metavar=("OLD", "NEW"))
    arguments = parser.parse_args()
    lines = [decode_line(line) for line in arguments.source.read_bytes().splitlines()]
    header = lines[0]
    assert isinstance(header, RecordingHeader)
    header = replace(
        header,
        name=arguments.out.stem,
        note=arguments.note,
        started_unix_ns=round(arguments.begin * 1e9),
    )
    kept = [header, *cut(lines, arguments.begin, arguments.end)]
    text = anonymous(b"".join(map(encode_line, kept)).decode())
    for old, new in arguments.rename:
        text = text.replace(f'"{old}"', f'"{new}"')
    arguments.out.write_text(text)


if __name__ == "__main__":
    main()
