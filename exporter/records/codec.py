"""The lines of a recording and their JSON; knows no files and no order of lines.

A recording is JSON Lines: one `RecordingHeader`, then device readings, pods and trace records
as they arrived. Each line names its type in ``type``.
"""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from exporter.records.device import DeviceReading
from exporter.records.device_detail import LaneReading
from exporter.records.pods import PodReading
from exporter.records.trace import Text, TraceRecord, UnixNs

RECORDING_VERSION = 1


class RecordingHeader(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag="recording", tag_field="type"
):
    """First line of a recording.

    `v`: version of the recording format. `started_unix_ns`: when recording began. `interval_s`:
    time between two device readings. `product_version`: the exporter that wrote the file. `note`:
    where the data comes from; None when there is nothing to say.
    """

    v: Annotated[int, Meta(ge=RECORDING_VERSION, le=RECORDING_VERSION)]
    name: Text
    started_unix_ns: UnixNs
    product_version: Text
    interval_s: Annotated[float, Meta(gt=0, le=3600)]
    note: Text | None = None


RecordingLine = RecordingHeader | DeviceReading | LaneReading | PodReading | TraceRecord

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[RecordingLine] = msgspec.json.Decoder(RecordingLine)


def encode_line(line: RecordingLine) -> bytes:
    """One line of a recording as UTF-8 JSON, newline included; unknown (None) fields left out."""
    return _encoder.encode(line) + b"\n"


def decode_line(line: bytes) -> RecordingLine:
    """Read one line of a recording; a newline at its end is allowed.

    Raises: ValueError: no JSON, an unknown type, or a field that its struct refuses.
    """
    try:
        return _decoder.decode(line)
    except RecursionError as exc:
        raise ValueError("JSON is nested too deeply") from exc
