"""The lines of a recording and their JSON; knows no files and no order of lines.

A recording is JSON Lines: one `RecordingHeader`, then device readings, pods and trace records
as they arrived. Each line names its type in ``type``.
"""

from typing import Annotated, get_args

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


class UnknownType(ValueError):  # noqa: N818 (what the line is, no fault)
    """A line of a type that this version does not know; its text is the type."""


class _Claim(Struct):
    """What a line says of itself, whatever else stands in it."""

    type: str
    v: int = RECORDING_VERSION
    product_version: str = ""


_TYPES = frozenset(line.__struct_config__.tag for line in get_args(RecordingLine))
_claim_decoder = msgspec.json.Decoder(_Claim)
_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[RecordingLine] = msgspec.json.Decoder(RecordingLine)


def encode_line(line: RecordingLine) -> bytes:
    """One line of a recording as UTF-8 JSON, newline included; unknown (None) fields left out."""
    return _encoder.encode(line) + b"\n"


def decode_line(line: bytes) -> RecordingLine:
    """Read one line of a recording; a newline at its end is allowed.

    Raises: UnknownType: a later version wrote it. ValueError: no JSON, another version of the
    format, or a field that its struct refuses.
    """
    try:
        return _decoder.decode(line)
    except msgspec.ValidationError as exc:
        raise _refusal(line, str(exc)) from exc
    except RecursionError as exc:
        raise ValueError("JSON is nested too deeply") from exc


def _refusal(line: bytes, fault: str) -> ValueError:
    """Why a line was refused: its type, its version, or else `fault`."""
    try:
        claim = _claim_decoder.decode(line)
    except ValueError:
        return ValueError(fault)
    if claim.type not in _TYPES:
        return UnknownType(claim.type)
    if claim.v == RECORDING_VERSION:
        return ValueError(fault)
    by = f" of exporter {claim.product_version}" if claim.product_version else ""
    return ValueError(
        f"format version {claim.v}{by}, and this exporter reads version {RECORDING_VERSION}:"
        " replay it with an exporter as old or new as the one that recorded it"
    )
