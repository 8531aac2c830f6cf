"""The lines of a recording: what is written is read back, and what is wrong is refused."""

import pytest

from exporter.records.codec import RecordingHeader, RecordingLine, decode_line, encode_line
from exporter.records.device import (
    Device,
    DeviceFacts,
    DeviceMemory,
    DeviceReading,
    DeviceSample,
    ProcessMemory,
)
from exporter.records.trace import (
    Blocks,
    EngineRecord,
    KvRecord,
    PageTableRecord,
    PrefixCache,
    TorchRecord,
)

HEADER = RecordingHeader(
    v=1,
    name="lab",
    started_unix_ns=1_795_960_028_831_000_000,
    product_version="0.1.0",
    interval_s=0.5,
)
READING = DeviceReading(
    ts_unix_ns=1_795_960_028_831_000_000,
    interval_s=0.5,
    devices=(
        Device(
            facts=DeviceFacts(index=0, uuid="GPU-1", name="NVIDIA H200"),
            sample=DeviceSample(
                memory=DeviceMemory(
                    total_bytes=1000, used_bytes=600, free_bytes=300, reserved_bytes=100
                ),
                processes=(ProcessMemory(pid=17, used_bytes=590, name="python"),),
                is_coherent=False,
                gpu_utilization_ratio=0.07,
                clocks_hertz={"sm": 1.98e9},
                event_reasons={"power": True},
            ),
        ),
        Device(facts=DeviceFacts(index=1, uuid="GPU-2")),
    ),
    capabilities={"nvmlDeviceGetMemoryInfo_v2": True},
)
ENGINE = EngineRecord(
    v=1,
    ts_unix_ns=1_795_960_028_000_000_001,
    pid=9,
    replica="r",
    engine="0",
    interval_s=30.0,
    start_unix_ns=1_795_960_000_000_000_003,
    plugin_seconds=0.25,
)
KV = KvRecord(
    v=1,
    ts_unix_ns=2,
    pid=9,
    replica="r",
    engine="0",
    interval_s=1.0,
    blocks=Blocks(total=100, num_free=40, cached=30),
    prefix_cache=PrefixCache(query_tokens=64, hit_tokens=16),
)
TORCH = TorchRecord(
    v=1, ts_unix_ns=3, pid=10, replica="r", engine="0", interval_s=1.0, rank=1, ooms=2
)
TABLES = PageTableRecord(
    v=1, ts_unix_ns=4, pid=9, replica="r", engine="0", interval_s=1.0, tables=((8, 3, 2), (5, 1, 0))
)


@pytest.mark.parametrize(
    "line",
    [HEADER, READING, ENGINE, KV, TORCH, TABLES],
    ids=["header", "device", "engine", "kv", "torch", "page_table"],
)
def test_every_kind_of_line_is_read_back_as_it_was_written(line: RecordingLine) -> None:
    encoded = encode_line(line)
    assert encoded.endswith(b"}\n")
    assert encoded.count(b"\n") == 1
    assert decode_line(encoded) == line


def test_unknown_fields_are_not_written_and_floats_are_short() -> None:
    assert encode_line(KV) == (
        b'{"type":"kv","v":1,"ts_unix_ns":2,"pid":9,"replica":"r","engine":"0","interval_s":1.0,'
        b'"blocks":{"total":100,"num_free":40,"cached":30},'
        b'"prefix_cache":{"query_tokens":64,"hit_tokens":16}}\n'
    )
    assert b'"gpu_utilization_ratio":0.07,' in encode_line(READING)


def test_a_field_that_this_version_does_not_know_passes() -> None:
    line = encode_line(HEADER).replace(b'"name"', b'"colour":"red","name"')
    assert decode_line(line) == HEADER


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "truncated"),
        (b"\n", "truncated"),
        (encode_line(READING)[:-20], "truncated"),
        (b"[1]", "Expected `object`, got `array`"),
        (b'{"type":"weather"}', "^weather$"),
        (b'{"v":1,"name":"lab"}', "missing required field `type`"),
        (
            encode_line(HEADER).replace(b'"v":1', b'"v":2'),
            "version 2 of exporter 0.1.0, and",
        ),
        (encode_line(KV).replace(b'"v":1', b'"v":3'), "^format version 3, and this exporter reads"),
        (encode_line(HEADER).replace(b"0.5", b"0"), "Expected `float` > 0.0"),
        (encode_line(HEADER).replace(b"lab", b"\xff\xfe"), "Invalid UTF-8"),
        (encode_line(KV).replace(b'"num_free":40', b'"num_free":100'), "num_free exceeds"),
        (encode_line(TORCH).replace(b'"ooms":2', b'"ooms":NaN'), "malformed"),
        (b'{"type":"kv","x":' + b"[" * 100_000, "nested too deeply"),
    ],
    ids=[
        "nothing",
        "blank",
        "cut off",
        "not an object",
        "unknown type",
        "no type",
        "newer version",
        "newer schema",
        "no interval",
        "not UTF-8",
        "contradictory group",
        "not a number",
        "nested too deeply",
    ],
)
def test_a_bad_line_is_refused_with_its_reason(line: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode_line(line)
