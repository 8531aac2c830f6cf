import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.clock import ManualClock
from exporter.errors import SourceUnavailable
from exporter.records.source import Source
from exporter.records.trace import KvRecord, PageTable, TraceReading, TraceRecord
from exporter.sources.trace import MAX_READ_BYTES, TraceSource
from exporter.sources.trace_files import MAX_FILES, find_trace_files

START_NS = 1_795_956_240_000_000_000
NO_LINES = {
    "accepted": 0,
    "partial": 0,
    "ignored": 0,
    "malformed": 0,
    "unknown_type": 0,
    "unknown_version": 0,
    "rejected": 0,
    "oversized": 0,
    "invalid_utf8": 0,
}
BARE_LINE = b'{"page_table": {"num_pages": 42, "contiguous_pages": 17}}\n'
TRACE_NAME = "replica.EngineCore.dp0.r0.42-1795956000.jsonl"


def kv_line(replica: str, waiting: int) -> bytes:
    return (
        b'{"type":"kv","v":1,"ts_unix_ns":1795956239000000000,"pid":42,"replica":"%s",'
        b'"engine":"0","interval_s":1,"waiting":%d}\n' % (replica.encode(), waiting)
    )


def kv_record(replica: str, waiting: int) -> KvRecord:
    return KvRecord(
        v=1,
        ts_unix_ns=1_795_956_239_000_000_000,
        pid=42,
        replica=replica,
        engine="0",
        interval_s=1.0,
        waiting=waiting,
    )


def append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


def records_of(reading: TraceReading | None) -> tuple[TraceRecord, ...]:
    return reading.records if reading else ()


class Reader:
    """A source of `paths` with a clock that stands still."""

    def __init__(self, *paths: Path | str) -> None:
        self.clock = ManualClock(START_NS)
        self.source = TraceSource([str(path) for path in paths], 0.25, self.clock)

    def read(self) -> TraceReading:
        reading = self.source.read()
        assert reading is not None
        return reading

    def read_a_second_later(self) -> TraceReading | None:
        self.clock.advance(1.0)
        return self.source.read()

    def unavailable(self) -> SourceUnavailable:
        with pytest.raises(SourceUnavailable) as caught:
            self.source.read()
        return caught.value


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "trace"


@pytest.fixture
def reader(directory: Path) -> Iterator[Reader]:
    """Reads `directory`, which is there and empty."""
    directory.mkdir()
    reader = Reader(directory)
    yield reader
    reader.source.close()


def test_it_is_a_source(reader: Reader) -> None:
    source: Source = reader.source
    assert (source.name, source.interval_s, dict(source.errors)) == ("trace", 0.25, {})


def test_one_bare_line_is_one_record_and_void_ones_after_it_change_nothing(
    reader: Reader, directory: Path
) -> None:
    append(directory / "server.log", BARE_LINE)
    os.utime(directory / "server.log", ns=(0, START_NS - 5_000_000_000))

    assert reader.read() == TraceReading(
        records=(
            KvRecord(
                v=1,
                ts_unix_ns=START_NS - 5_000_000_000,
                replica="server",
                engine="",
                interval_s=20.0,
                model_name="",
                page_table=PageTable(num_pages=42, contiguous_pages=17),
            ),
        ),
        lines={**NO_LINES, "accepted": 1},
        dropped_bytes=0,
        files=1,
    )
    append(directory / "server.log", b'{"num_pages": NaN, "contiguous_pages": 3}\n')
    append(directory / "server.log", b'{"page_table": {"num_pages": NaN, "contiguous_pages": 3}}\n')
    after = reader.read()
    assert after.records == ()
    assert after.lines == {**NO_LINES, "accepted": 1, "ignored": 1, "rejected": 1}
    assert reader.source.errors == {"invalid_page_table": 1}


@pytest.mark.parametrize(
    ("written_ns", "ts_unix_ns"),
    [
        pytest.param(START_NS - 7, START_NS - 7, id="before"),
        pytest.param(START_NS + 7, START_NS, id="in the future"),
    ],
)
def test_bare_lines_that_were_there_are_as_old_as_the_file(
    reader: Reader, directory: Path, written_ns: int, ts_unix_ns: int
) -> None:
    append(directory / "server.log", BARE_LINE)
    os.utime(directory / "server.log", ns=(0, written_ns))

    assert [record.ts_unix_ns for record in reader.read().records] == [ts_unix_ns]


def stats_line(running: int, engine: int = 0) -> bytes:
    return (
        b"(APIServer pid=439) INFO 11-29 12:43:38 [loggers.py:273] Engine %03d: Avg prompt"
        b" throughput: 5845.9 tokens/s, Avg generation throughput: 1614.8 tokens/s, Running: %d"
        b" reqs, Waiting: 3 reqs, GPU KV cache usage: 2.8%%, Prefix cache hit rate: 72.0%%\n"
    ) % (engine, running)


def stats_record(running: int, ts_unix_ns: int, engine: str = "0") -> KvRecord:
    return KvRecord(
        v=1,
        ts_unix_ns=ts_unix_ns,
        replica="server",
        engine=engine,
        interval_s=20.0,
        model_name="",
        origin="log",
        usage_ratio=0.028,
        running=running,
        waiting=3,
    )


def test_of_a_log_that_was_there_only_the_newest_line_of_each_engine_counts(
    reader: Reader, directory: Path
) -> None:
    log, written_ns = directory / "server.log", START_NS - 5_000_000_000
    append(log, stats_line(90) + stats_line(70, 1) + BARE_LINE + stats_line(15) + BARE_LINE)
    append(log, kv_line("a", 1) + kv_line("a", 2))
    os.utime(log, ns=(0, written_ns))

    reading = reader.read()

    assert reading.records[:2] == (
        stats_record(70, written_ns, "1"),
        stats_record(15, written_ns),
    )
    assert reading.records[3:] == (kv_record("a", 1), kv_record("a", 2))
    assert len(reading.records) == 5
    assert reading.lines == {**NO_LINES, "accepted": 7}


def test_of_a_log_that_grows_every_line_counts_at_its_arrival(
    reader: Reader, directory: Path
) -> None:
    append(directory / "server.log", b"INFO 11-29 12:42:57 starting\n")
    assert reader.read().records == ()
    reader.clock.advance(0.25)
    append(directory / "server.log", stats_line(15) + stats_line(16))

    later_ns = START_NS + 250_000_000
    assert reader.read().records == (stats_record(15, later_ns), stats_record(16, later_ns))


def test_bare_lines_that_come_later_are_as_old_as_their_arrival(
    reader: Reader, directory: Path
) -> None:
    append(directory / "server.log", b"hello\n")
    reader.read()
    reader.clock.advance(0.25)
    append(directory / "server.log", BARE_LINE)

    assert [record.ts_unix_ns for record in reader.read().records] == [START_NS + 250_000_000]


def test_records_of_all_files_come_file_by_file(reader: Reader, directory: Path) -> None:
    append(directory / "b.jsonl", kv_line("b", 3) + kv_line("b", 4))
    append(directory / "a.jsonl", kv_line("a", 1) + kv_line("a", 2))

    reading = reader.read()
    assert reading.records == (
        kv_record("a", 1),
        kv_record("a", 2),
        kv_record("b", 3),
        kv_record("b", 4),
    )
    assert reading.files == 2


def test_nothing_new_is_none_and_every_count_is_there_from_the_start(
    reader: Reader, directory: Path
) -> None:
    (directory / TRACE_NAME).touch()

    assert reader.read() == TraceReading(records=(), lines=NO_LINES, dropped_bytes=0, files=1)
    assert reader.source.read() is None
    append(directory / TRACE_NAME, b"half a line")
    assert reader.source.read() is None


@pytest.mark.parametrize(
    ("line", "outcome", "dropped_bytes"),
    [
        (b"text\n", "ignored", 0),
        (b"{\n", "malformed", 0),
        (b'{"v":1,"type":"kv"}\n', "rejected", 0),
        (b'{"v":2,"type":"kv"}\n', "unknown_version", 0),
        (b'{"v":1,"type":"new"}\n', "unknown_type", 0),
        (b"\xff\n", "invalid_utf8", 2),
        (b"x" * (2**20 + 1) + b"\n", "oversized", 2**20 + 2),
    ],
)
def test_a_line_without_a_record_is_counted(
    reader: Reader, directory: Path, line: bytes, outcome: str, dropped_bytes: int
) -> None:
    (directory / TRACE_NAME).touch()
    reader.read()
    append(directory / TRACE_NAME, line)

    assert reader.read() == TraceReading(
        records=(), lines={**NO_LINES, outcome: 1}, dropped_bytes=dropped_bytes, files=1
    )


def test_of_a_directory_only_trace_files_and_logs_are_read(reader: Reader, directory: Path) -> None:
    for name in (TRACE_NAME, "server.log"):
        append(directory / name, kv_line(name, 1))
    for name in (TRACE_NAME + ".1", "pause", "server.log.gz", "notes.txt"):
        append(directory / name, kv_line(name, 2))

    assert set(reader.read().records) == {kv_record(TRACE_NAME, 1), kv_record("server.log", 1)}


def test_d2_a_rotated_file_is_read_once_and_its_successor_from_the_start(
    reader: Reader, directory: Path
) -> None:
    append(directory / TRACE_NAME, kv_line("a", 1))
    reader.read()
    append(directory / TRACE_NAME, kv_line("a", 2))
    (directory / TRACE_NAME).rename(directory / (TRACE_NAME + ".1"))
    append(directory / TRACE_NAME, kv_line("a", 3))

    assert reader.read().records == (kv_record("a", 2), kv_record("a", 3))
    assert reader.read_a_second_later() is None


def test_d2_a_rotated_file_that_the_pattern_matches_too_is_not_read_again(
    directory: Path,
) -> None:
    directory.mkdir()
    reader = Reader(str(directory / "*.jsonl*"))
    append(directory / "a.jsonl", kv_line("a", 1))
    reader.read()
    append(directory / "a.jsonl", kv_line("a", 2))
    for number in (3, 4):
        for age in (2, 1):
            aged = directory / f"a.jsonl.{age}"
            if aged.exists():
                aged.rename(directory / f"a.jsonl.{age + 1}")
        (directory / "a.jsonl").rename(directory / "a.jsonl.1")
        append(directory / "a.jsonl", kv_line("a", number))
    seen = [record for _ in range(5) for record in records_of(reader.read_a_second_later())]
    assert seen == [kv_record("a", 2), kv_record("a", 4), kv_record("a", 3)]
    reader.source.close()


def test_d10_one_read_of_many_files_with_much_to_read_takes_a_bounded_amount(
    reader: Reader, directory: Path
) -> None:
    paths = [directory / f"{number:02}.log" for number in range(20)]
    for path in paths:
        append(path, b"first\n")
    reader.read()
    for path in paths:
        append(path, b"0123456789abcde\n" * (MAX_READ_BYTES // 16 // 16))  # 40 MiB in all
    reading = reader.read()
    assert reading.lines["ignored"] == 20 + 20 * (64 * 1024 // 16)
    assert reading.dropped_bytes == 20 * (MAX_READ_BYTES // 16 - 64 * 1024)


def test_d2_a_file_is_read_under_one_of_its_names(reader: Reader, directory: Path) -> None:
    append(directory / "run-7.log", BARE_LINE)
    (directory / "latest.log").symlink_to("run-7.log")
    os.link(directory / "run-7.log", directory / "same.log")
    assert [record.replica for record in reader.read().records] == ["run-7"]
    append(directory / "run-8.log", BARE_LINE)
    (directory / "newer.log").symlink_to("run-8.log")
    (directory / "newer.log").rename(directory / "latest.log")
    seen = [record for _ in range(3) for record in records_of(reader.read_a_second_later())]
    assert [record.replica for record in seen] == ["run-8"]


def test_a_source_that_was_closed_reads_on_where_it_was_left(
    reader: Reader, directory: Path
) -> None:
    append(directory / "a.jsonl", kv_line("a", 1) + b'{"half')
    reader.read()
    reader.source.close()
    append(directory / "a.jsonl", b'": 1}\n' + kv_line("a", 2))
    append(directory / "b.jsonl", kv_line("b", 1))
    reader.source.follow([str(directory)])
    reading = reader.read()
    assert reading.records == (kv_record("a", 2), kv_record("b", 1))
    assert (reading.lines["accepted"], reading.lines["malformed"]) == (3, 0)
    assert reading.dropped_bytes == len(b'{"half": 1}\n')


def test_other_paths_are_followed_from_the_next_read_on(directory: Path, tmp_path: Path) -> None:
    for place in (directory, tmp_path / "other"):
        place.mkdir()
        append(place / "a.jsonl", kv_line(place.name, 1))
    reader = Reader(directory)
    reader.read()
    append(directory / "a.jsonl", kv_line("trace", 2))
    reader.source.follow([str(directory), str(tmp_path / "other")])
    assert reader.read().records == (kv_record("trace", 2), kv_record("other", 1))
    reader.source.follow([str(tmp_path / "other")])
    append(directory / "a.jsonl", kv_line("trace", 3))
    append(tmp_path / "other" / "a.jsonl", kv_line("other", 2))
    reading = reader.read()
    assert (reading.records, reading.files) == ((kv_record("other", 2),), 1)
    reader.source.close()


def test_a_file_that_comes_later_is_found_within_a_second_and_read_from_its_start(
    reader: Reader, directory: Path
) -> None:
    append(directory / "a.jsonl", kv_line("a", 1))
    reader.read()
    append(directory / "b.jsonl", b"text\n" * 20_000 + kv_line("b", 2))
    assert reader.source.read() is None

    reading = reader.read_a_second_later()
    assert reading is not None
    assert reading.records == (kv_record("b", 2),)
    assert (reading.lines["ignored"], reading.files) == (20_000, 2)


def test_of_a_file_that_was_there_only_the_end_is_read(reader: Reader, directory: Path) -> None:
    append(directory / "a.jsonl", b"text\n" * 20_000 + kv_line("a", 1))

    reading = reader.read()
    assert reading.records == (kv_record("a", 1),)
    assert reading.lines["ignored"] == (65_536 - len(kv_line("a", 1))) // 5
    assert reading.dropped_bytes == 0


def test_a_deleted_file_is_read_to_its_end_and_no_longer_followed(
    reader: Reader, directory: Path
) -> None:
    append(directory / "a.jsonl", kv_line("a", 1))
    append(directory / "b.jsonl", kv_line("b", 1))
    reader.read()
    append(directory / "b.jsonl", kv_line("b", 2))
    (directory / "b.jsonl").unlink()

    reading = reader.read_a_second_later()
    assert reading is not None
    assert (reading.records, reading.files) == ((kv_record("b", 2),), 1)
    assert reader.read_a_second_later() is None


@pytest.mark.parametrize("kind", ["nothing", "empty directory", "no path"])
def test_without_any_file_it_says_what_to_do_and_recovers(tmp_path: Path, kind: str) -> None:
    directory = tmp_path / "trace"
    if kind == "empty directory":
        directory.mkdir()
    reader = Reader(*([] if kind == "no path" else [directory]))
    unavailable = reader.unavailable()
    assert unavailable.reason == "no_trace_files"
    assert "VLLM_MEMORY_TRACE_DIR" in unavailable.fix
    if kind == "no path":
        return

    assert str(directory) in unavailable.detail
    directory.mkdir(exist_ok=True)
    append(directory / TRACE_NAME, b"text\n" * 20_000 + kv_line("a", 1))
    reading = reader.read_a_second_later()
    assert reading is not None
    assert reading.records == (kv_record("a", 1),)
    assert reading.lines["ignored"] == 20_000  # it came later: from its start
    reader.source.close()


def test_when_the_last_file_goes_the_source_is_unavailable_again(
    reader: Reader, directory: Path
) -> None:
    append(directory / TRACE_NAME, kv_line("a", 1))
    reader.read()
    (directory / TRACE_NAME).unlink()
    reader.read_a_second_later()
    reader.clock.advance(1.0)

    assert reader.unavailable().reason == "no_trace_files"


def test_an_unreadable_file_is_counted_and_the_others_go_on(
    reader: Reader, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    append(directory / "a.jsonl", kv_line("a", 1))
    os.mkfifo(directory / "b.jsonl")
    (directory / "c.jsonl").symlink_to("c.jsonl")

    assert reader.read().records == (kv_record("a", 1),)
    assert reader.source.read() is None
    assert reader.source.errors == {"not_a_regular_file": 2, "io_error": 2}
    assert len([line for line in caplog.messages if "not readable" in line]) == 2

    (directory / "b.jsonl").unlink()
    append(directory / "b.jsonl", kv_line("b", 2))
    with caplog.at_level(logging.INFO):
        assert reader.read().records == (kv_record("b", 2),)
    assert caplog.messages[-1] == f"trace file readable again: {directory / 'b.jsonl'}"


def test_when_no_file_can_be_read_the_source_is_unavailable(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = Reader(tmp_path / "pipe")

    unavailable = reader.unavailable()
    assert unavailable.reason == "not_a_regular_file"
    assert unavailable.detail == f"{tmp_path / 'pipe'}: not a regular file"
    assert reader.source.errors == {}


def test_bad_lines_of_a_file_are_logged_once(
    reader: Reader, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    append(directory / "a.jsonl", b'{\n{"page_table": {"num_pages": -1}}\ntext\n')
    reader.read()
    append(directory / "a.jsonl", b"{\n")
    reader.read()

    (message,) = caplog.messages
    assert message == (
        f"{directory / 'a.jsonl'} has faulty lines: malformed, rejected, invalid page_table; "
        "from now on they are only counted"
    )


def test_files_patterns_and_directories_are_expanded_and_no_file_is_read_twice(
    tmp_path: Path,
) -> None:
    for pod in ("pod1", "pod2"):
        (tmp_path / pod).mkdir()
        append(tmp_path / pod / "a.jsonl", kv_line(pod, 1))
        append(tmp_path / pod / "a.jsonl.1", kv_line(pod, 9))
    append(tmp_path / "x.txt", kv_line("x", 1))
    append(tmp_path / "odd[1].jsonl", kv_line("odd", 1))

    found = find_trace_files(
        [
            str(tmp_path / "pod*"),
            str(tmp_path / "pod1" / "*.jsonl"),
            str(tmp_path / "x.txt"),
            str(tmp_path / "odd[1].jsonl"),
            str(tmp_path / "missing.jsonl"),
        ]
    )
    names = ["odd[1].jsonl", "pod1/a.jsonl", "pod2/a.jsonl", "x.txt"]
    assert found.paths == [str(tmp_path / name) for name in names]


def set_written(path: Path, ns: int) -> None:
    os.utime(path, ns=(0, ns))


def test_of_too_many_files_the_last_written_are_followed(reader: Reader, directory: Path) -> None:
    for number in range(MAX_FILES + 2):
        append(directory / f"{number:03}.jsonl", kv_line(str(number), 1))
        set_written(directory / f"{number:03}.jsonl", START_NS + number % 7 * 10**9)
    for old in ("001", "200"):
        set_written(directory / f"{old}.jsonl", START_NS - 3600 * 10**9)

    reading = reader.read()
    assert reading.files == MAX_FILES
    assert {"1", "200"}.isdisjoint(record.replica for record in reading.records)
    assert reader.source.errors == {"too_many_files": 2}

    append(directory / "200.jsonl", b"text\n" * 20_000 + kv_line("200", 2))
    set_written(directory / "200.jsonl", START_NS)
    set_written(directory / "100.jsonl", START_NS - 3600 * 10**9)
    later = reader.read_a_second_later()
    assert later is not None
    assert later.records == (kv_record("200", 2),)  # it was there before: its end is enough
    assert later.files == MAX_FILES


def test_too_many_files_that_are_all_being_written_do_not_change_places(
    reader: Reader, directory: Path
) -> None:
    for number in range(MAX_FILES + 1):
        append(directory / f"{number:03}.jsonl", kv_line(str(number), 1))
        set_written(directory / f"{number:03}.jsonl", START_NS + 1)
    assert len(reader.read().records) == MAX_FILES
    set_written(directory / f"{MAX_FILES}.jsonl", START_NS + 59 * 10**9)

    assert reader.read_a_second_later() is None


def test_a_file_name_that_is_not_utf8_gives_a_printable_replica(
    reader: Reader, directory: Path
) -> None:
    append(directory / os.fsdecode(b"bad\xff.log"), BARE_LINE)

    assert [record.replica for record in reader.read().records] == ["bad\ufffd"]


def test_close_lets_all_files_go(reader: Reader, directory: Path) -> None:
    def open_files() -> set[str]:
        links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
        return {os.readlink(link) for link in links if os.path.lexists(link)}

    append(directory / "a.jsonl", kv_line("a", 1))
    reader.read()
    assert str(directory / "a.jsonl") in open_files()
    reader.source.close()
    assert str(directory / "a.jsonl") not in open_files()
