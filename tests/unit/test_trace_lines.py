import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.records.trace import (
    Blocks,
    EngineRecord,
    KvRecord,
    PageTable,
    PageTableRecord,
    TorchRecord,
    TraceRecord,
)
from exporter.sources.trace_lines import OUTCOMES, LineOrigin, ParsedLines, parse_lines

ORIGIN = LineOrigin(replica="server", ts_unix_ns=1_795_956_239_000_000_000)
IDENTITY = '"v":1,"ts_unix_ns":1795956240000000000,"pid":42,"replica":"a","engine":"0"'
KV = f'{{"type":"kv",{IDENTITY},"interval_s":1'
TORCH = f'{{"type":"torch",{IDENTITY},"interval_s":1,"rank":3'
KV_RECORD = KvRecord(
    v=1, ts_unix_ns=1_795_956_240_000_000_000, pid=42, replica="a", engine="0", interval_s=1.0
)
TORCH_RECORD = TorchRecord(
    v=1,
    ts_unix_ns=1_795_956_240_000_000_000,
    pid=42,
    replica="a",
    engine="0",
    interval_s=1.0,
    rank=3,
)
BARE_17_OF_42 = KvRecord(
    v=1,
    ts_unix_ns=1_795_956_239_000_000_000,
    replica="server",
    engine="",
    interval_s=20.0,
    model_name="",
    page_table=PageTable(num_pages=42, contiguous_pages=17),
)
PAGE_TABLE = '"page_table":{"num_pages":42,"contiguous_pages":17}'


def parse(*lines: str) -> ParsedLines:
    return parse_lines([line.encode() for line in lines], ORIGIN)


def outcome_of(line: str) -> str:
    (outcome,) = +parse(line).outcomes
    return outcome


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(
            msgspec.structs.replace(
                KV_RECORD,
                page_table=PageTable(num_pages=42, contiguous_pages=17, tables=4),
                blocks=Blocks(total=100, num_free=30, cached=20),
                waiting=3,
            ),
            id="kv",
        ),
        pytest.param(
            msgspec.structs.replace(
                TORCH_RECORD, allocated_bytes=134_000_000_000, reserved_bytes=135_000_000_000
            ),
            id="torch",
        ),
        pytest.param(
            EngineRecord(
                v=1,
                ts_unix_ns=1_795_956_240_000_000_000,
                pid=42,
                replica="ä",
                engine="1",
                interval_s=30.0,
                status="degraded",
                capabilities={"blocks": True},
            ),
            id="engine",
        ),
        pytest.param(
            PageTableRecord(
                v=1,
                ts_unix_ns=1_795_956_240_000_000_000,
                pid=42,
                replica="a",
                engine="0",
                interval_s=1.0,
                tables=((90, 7, 3),),
            ),
            id="page_table",
        ),
    ],
)
def test_what_the_writer_encodes_is_read_back(record: TraceRecord) -> None:
    parsed = parse_lines([msgspec.json.encode(record)], ORIGIN)

    assert parsed.records == [record]
    assert +parsed.outcomes == {"accepted": 1}


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(KV + "}\r", id="CRLF"),
        pytest.param("\ufeff" + KV + "}", id="byte order mark"),
        pytest.param("\0" * 5000 + KV + "}", id="behind a run of NULs"),
        pytest.param("  " + KV + "}", id="indented"),
        pytest.param(KV + ',"new_field":{"a":[1]}}', id="unknown field"),
        pytest.param(KV + ',"new_field":NaN}', id="unknown field that is not finite"),
        pytest.param(KV + ',"new_field":1e999}', id="unknown field that is out of range"),
        pytest.param(KV + ',"new_field":' + "9" * 5000 + "}", id="unknown huge integer"),
        pytest.param(KV + ',"running":null}', id="null is not given"),
        pytest.param("(EngineCore pid=42) " + KV + "}", id="behind vLLM's prefix"),
        pytest.param(KV + ',"pid":1,"pid":42}', id="duplicate key, the last one counts"),
    ],
)
def test_d7_what_stands_around_a_record_does_not_spoil_it(line: str) -> None:
    parsed = parse(line)

    assert parsed.records == [KV_RECORD]
    assert +parsed.outcomes == {"accepted": 1}
    assert not parsed.void_fields


@pytest.mark.parametrize(
    "field",
    [
        pytest.param('"page_table":{"num_pages":NaN,"contiguous_pages":3}', id="NaN"),
        pytest.param('"page_table":{"num_pages":Infinity,"contiguous_pages":3}', id="Infinity"),
        pytest.param('"page_table":{"num_pages":1e999,"contiguous_pages":3}', id="out of range"),
        pytest.param('"page_table":{"num_pages":-1,"contiguous_pages":3}', id="negative"),
        pytest.param('"page_table":{"num_pages":true,"contiguous_pages":0}', id="boolean"),
        pytest.param('"page_table":{"num_pages":"42","contiguous_pages":3}', id="text"),
        pytest.param('"page_table":{"num_pages":4.5,"contiguous_pages":3}', id="fraction"),
        pytest.param(
            '"page_table":{"num_pages":' + "9" * 5000 + ',"contiguous_pages":3}', id="huge integer"
        ),
        pytest.param('"page_table":{"num_pages":18446744073709551616}', id="2**64"),
        pytest.param('"page_table":{"num_pages":9007199254740993}', id="2**53 + 1"),
        pytest.param('"page_table":{"num_pages":42}', id="half of it missing"),
        pytest.param('"page_table":{"num_pages":3,"contiguous_pages":4}', id="contradictory"),
        pytest.param('"page_table":[42,17]', id="array"),
        pytest.param('"page_table":42', id="number"),
    ],
)
def test_d6_a_bad_group_is_void_and_counted_and_the_others_stay(field: str) -> None:
    parsed = parse(KV + "," + field + ',"blocks":{"total":100,"num_free":30},"waiting":3}')

    assert parsed.records == [
        msgspec.structs.replace(KV_RECORD, blocks=Blocks(total=100, num_free=30), waiting=3)
    ]
    assert +parsed.outcomes == {"partial": 1}
    assert parsed.void_fields == {"page_table": 1}


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ('"waiting":-1', "waiting"),
        ('"waiting":NaN', "waiting"),
        ('"model_name":7', "model_name"),
        ('"model_name":"\\ud800"', "model_name"),
        ('"pid":-5', "pid"),
        ('"blocks":{"total":100,"num_free":100}', "blocks"),  # one is the null block
        ('"slots":{"allocated":16,"used":17}', "slots"),
        ('"prefix_cache":{"query_tokens":5,"hit_tokens":6}', "prefix_cache"),
        ('"groups":[{"index":0,"kind":"FullAttentionSpec"}]', "groups"),
    ],
)
def test_every_field_is_a_group_of_its_own(field: str, name: str) -> None:
    parsed = parse(KV + ',"running":5,' + field + "}")

    assert [getattr(record, "running", None) for record in parsed.records] == [5]
    assert [getattr(record, name) for record in parsed.records] == [None]
    assert parsed.void_fields == {name: 1}
    assert +parsed.outcomes == {"partial": 1}


def test_allocated_above_reserved_voids_both_and_nothing_else() -> None:
    parsed = parse(TORCH + ',"allocated_bytes":9,"reserved_bytes":8,"active_bytes":7}')

    assert parsed.records == [msgspec.structs.replace(TORCH_RECORD, active_bytes=7)]
    assert parsed.void_fields == {"allocated_bytes": 1, "reserved_bytes": 1}
    assert +parsed.outcomes == {"partial": 1}


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (KV.replace("1795956240000000000", "NaN"), "ts_unix_ns"),
        (KV.replace("1795956240000000000", "-1"), "ts_unix_ns"),
        (KV.replace("1795956240000000000", "1.5"), "ts_unix_ns"),
        (KV.replace("1795956240000000000", "9223372036854775808"), "ts_unix_ns"),
        (KV.replace('"ts_unix_ns":1795956240000000000,', ""), "ts_unix_ns"),
        (KV.replace('"a"', "null"), "replica"),
        (KV.replace('"a"', '"' + "a" * 513 + '"'), "replica"),
        (KV.replace('"a"', '"\\udc00"'), "replica"),
        (KV.replace('"engine":"0"', '"engine":0'), "engine"),
        (KV.replace('"interval_s":1', '"interval_s":0'), "interval_s"),
        (KV.replace('"interval_s":1', '"interval_s":Infinity'), "interval_s"),
        (KV.replace('"v":1,', ""), "v"),
        (KV.replace('"v":1', '"v":true'), "v"),
        (KV.replace('"v":1', '"v":"1"'), "v"),
        (TORCH.replace('"rank":3', '"rank":-3'), "rank"),
    ],
)
def test_a_record_with_a_bad_identity_is_rejected(line: str, name: str) -> None:
    parsed = parse(line + "," + PAGE_TABLE + "}")

    assert parsed.records == []
    assert +parsed.outcomes == {"rejected": 1}
    assert parsed.void_fields == {name: 1}


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("{" + PAGE_TABLE + "}", id="alone"),
        pytest.param("\ufeff{" + PAGE_TABLE + "}\r", id="byte order mark and CRLF"),
        pytest.param('{"level":"DEBUG",' + PAGE_TABLE + "}", id="at the top of a log line"),
        pytest.param('{"level":"DEBUG","extra":{"a":1,' + PAGE_TABLE + "}}", id="one level down"),
        pytest.param('{"type":"log","extra":{' + PAGE_TABLE + "}}", id="log line with a type"),
        pytest.param('{"v":0,' + PAGE_TABLE + "}", id="log line with a v"),
        pytest.param("(EngineCore pid=123) {" + PAGE_TABLE + "}", id="behind vLLM's prefix"),
        pytest.param("(Worker_TP0 pid=1) {" + PAGE_TABLE + "}", id="behind a worker's prefix"),
        pytest.param(
            "\x1b[0;36m(EngineCore_DP0 pid=123)\x1b[0;0m {" + PAGE_TABLE + "}",
            id="behind a coloured prefix",
        ),
        pytest.param(
            "{" + PAGE_TABLE + ',"kv_cache":{"used":-1},"blocks":7}',
            id="only the page table is read",
        ),
    ],
)
def test_a_bare_page_table_is_a_record_of_its_file(line: str) -> None:
    parsed = parse(line)

    assert parsed.records == [BARE_17_OF_42]
    assert +parsed.outcomes == {"accepted": 1}


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ('{"num_pages": NaN, "contiguous_pages": 3}', "ignored"),
        ('{"num_pages": 42, "contiguous_pages": 17}', "ignored"),
        ('{"page_table": {"num_pages": NaN, "contiguous_pages": 3}}', "rejected"),
        ('{"page_table": {"num_pages": 2, "contiguous_pages": 3}}', "rejected"),
        ('{"page_table": "none"}', "rejected"),
        ('{"a":{"b":{"page_table": {"num_pages": 42, "contiguous_pages": 17}}}}', "ignored"),
        ('[{"page_table": {"num_pages": 42, "contiguous_pages": 17}}]', "ignored"),
    ],
)
def test_a_bare_page_table_that_is_void_or_elsewhere_changes_nothing(
    line: str, outcome: str
) -> None:
    parsed = parse(line)

    assert parsed.records == []
    assert +parsed.outcomes == {outcome: 1}


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        pytest.param("", "ignored", id="empty"),
        pytest.param(" \r", "ignored", id="blank"),
        pytest.param("\0" * 100, "malformed", id="NULs"),
        pytest.param("INFO 11-29 12:24:11 [a.py:1] hello", "ignored", id="text"),
        pytest.param("[W1129 12:47:12.136 socket.cpp:207] [c10d]", "ignored", id="bracket"),
        pytest.param("(APIServer pid=1) INFO {'a': 1}", "ignored", id="text holding a brace"),
        pytest.param("{", "malformed", id="brace"),
        pytest.param(KV, "malformed", id="cut off"),
        pytest.param(KV + "}" + KV + "}", "malformed", id="two in one line"),
        pytest.param(KV[: len(KV) // 2] + "\0\0\0" + KV + "}", "malformed", id="torn by NULs"),
        pytest.param("{'a': 1}", "malformed", id="Python's repr"),
        pytest.param("{}", "ignored", id="empty object"),
        pytest.param("[1, 2]", "ignored", id="array"),
        pytest.param("NaN", "ignored", id="no object"),
        pytest.param("[" * 100_000, "ignored", id="deep array"),
        pytest.param('{"a":' * 100_000, "malformed", id="deep object"),
        pytest.param(
            KV + ',"x":' + "[" * 100_000 + "]" * 100_000 + "}", "malformed", id="deep unknown field"
        ),
        pytest.param('{"type":"kv2",' + IDENTITY + "}", "unknown_type", id="type of tomorrow"),
        pytest.param('{"type":["kv"],' + IDENTITY + "}", "unknown_type", id="type is an array"),
        pytest.param('{"type":null,' + IDENTITY + "}", "unknown_type", id="type is null"),
        pytest.param(KV.replace('"v":1', '"v":2') + "}", "unknown_version", id="next version"),
        pytest.param('{"v":0,"type":"torch_memory"}', "unknown_version", id="the prototype's"),
        pytest.param('{"type":"log","message":"x"}', "ignored", id="log line with a type"),
        pytest.param('{"type":"kv","message":"x"}', "rejected", id="our type and nothing else"),
    ],
)
def test_d7_lines_without_a_record_are_told_apart(line: str, outcome: str) -> None:
    assert parse(line).records == []
    assert outcome_of(line) == outcome


def test_one_bad_line_hides_no_other_and_order_is_kept() -> None:
    parsed = parse(
        KV + "}", "{", "{" + PAGE_TABLE + "}", "text", KV + ',"waiting":-1}', TORCH + "}"
    )

    assert parsed.records == [KV_RECORD, BARE_17_OF_42, KV_RECORD, TORCH_RECORD]
    assert +parsed.outcomes == {"accepted": 3, "malformed": 1, "ignored": 1, "partial": 1}


@settings(deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=20))
def test_d7_no_bytes_make_it_raise(lines: list[bytes]) -> None:
    assert parse_lines(lines, ORIGIN).outcomes.total() == len(lines)


TEXT = st.text("aé\0\ud800", max_size=5)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
FIELDS = sorted({name for struct in (KvRecord, TorchRecord) for name in struct.__struct_fields__})


@settings(deadline=None)
@given(
    values=st.dictionaries(st.sampled_from(FIELDS), JSON_VALUES),
    type_name=st.sampled_from(["kv", "torch"]),
)
def test_whatever_a_field_holds_each_line_has_one_outcome_and_records_are_valid(
    values: dict[str, object], type_name: str
) -> None:
    line = json.loads(TORCH + "}") | values | {"type": type_name}
    parsed = parse(json.dumps(line))

    assert parsed.outcomes.total() == 1
    assert set(parsed.outcomes) <= set(OUTCOMES)
    for record in parsed.records:
        decoded = msgspec.json.decode(msgspec.json.encode(record), type=type(record))
        assert decoded == record


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        pytest.param(
            '(APIServer pid=1354) {"asctime": "2026-11-29 12:46:47,630", "levelname": "INFO", '
            '"name": "vllm.entrypoints.openai.api_server", "filename": "api_utils.py", '
            '"lineno": 339, "process": 1354, "processName": "MainProcess", '
            '"message": "vLLM server version 0.25.1, serving model /models/llama-8b-shape"}',
            "ignored",
            id="vLLM 0.25.1, JSON",
        ),
        pytest.param(
            '{"asctime": "2026-11-29 12:26:19,770", "levelname": "WARNING", '
            '"name": "vllm.triton_utils.importing", "processName": "MainProcess", '
            '"process": 22401, "message": "Triton is installed, but doesn\'t include CPU backend. '
            'Disabling Triton."}',
            "ignored",
            id="vLLM 0.30.0, JSON before there is a prefix",
        ),
        pytest.param(
            "(APIServer pid=439) INFO 11-29 12:41:34 [api_utils.py:339]  ▄▄ ▄█ █     █     █ ▀▄▀ █"
            "  version 0.25.1\r",
            "ignored",
            id="vLLM 0.25.1, banner",
        ),
        pytest.param(
            "(APIServer pid=439) INFO 11-29 12:41:34 [api_utils.py:273] non-default args: "
            "{'model_tag': '/models/llama-8b-shape', 'host': '127.0.0.1', 'max_num_seqs': 64}",
            "ignored",
            id="vLLM 0.25.1, text with braces",
        ),
        pytest.param(
            "[W1129 12:47:12.136973383 socket.cpp:207] [c10d] The hostname of the client socket "
            "cannot be retrieved. err=-3",
            "ignored",
            id="torch",
        ),
        pytest.param(
            '{"v":0,"type":"page_table","ts":1795955080.089,"engine":0,"step":0,"idle":true,'
            '"page_table":{"num_pages":14,"contiguous_pages":13,"descending_pages":0}}',
            "unknown_version",
            id="a prototype that counted pages otherwise",
        ),
        pytest.param(
            '{"ts":1795960027.1887,"step":1,"reqs":7,"waiting":6,"pages":674,"adj_up":664}',
            "ignored",
            id="another tool's trace",
        ),
    ],
)
def test_real_lines_without_our_records_are_no_errors(line: str, outcome: str) -> None:
    assert parse(line).records == []
    assert outcome_of(line) == outcome


@pytest.mark.parametrize(
    "line",
    [
        "(APIServer pid=439) INFO 11-29 12:43:38 [loggers.py:273] %s",
        '{"levelname": "INFO", "message": "%s"}',
        '(APIServer pid=1354) {"levelname": "INFO", "message": "%s"}',
    ],
    ids=["text", "JSON", "JSON behind vLLM's prefix"],
)
def test_vllms_stats_line_is_a_record_in_every_format(line: str) -> None:
    stats = (
        "Engine 001: Avg prompt throughput: 5845.9 tokens/s, Avg generation throughput: 1614.8"
        " tokens/s, Running: 15 reqs, Waiting: 3 reqs, GPU KV cache usage: 2.8%"
    )
    parsed = parse(line % stats)

    assert parsed.records == [
        KvRecord(
            v=1,
            ts_unix_ns=ORIGIN.ts_unix_ns,
            replica="server",
            engine="1",
            interval_s=20.0,
            model_name="",
            origin="log",
            usage_ratio=0.028,
            running=15,
            waiting=3,
        )
    ]
    assert +parsed.outcomes == {"accepted": 1}
