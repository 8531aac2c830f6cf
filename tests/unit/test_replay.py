"""A recording plays at its own pace, over and over, as if it happened now."""

import gzip
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from msgspec.structs import replace

from exporter.clock import ManualClock
from exporter.errors import RecordingError
from exporter.records.codec import RecordingHeader, RecordingLine, encode_line
from exporter.records.device import (
    Device,
    DeviceFacts,
    DeviceReading,
    DeviceSample,
    ProcessMemory,
)
from exporter.records.source import Reading, Source
from exporter.records.trace import (
    EngineRecord,
    KvRecord,
    PrefixCache,
    ScheduledTokens,
    TorchRecord,
    TraceReading,
    TraceRecord,
)
from exporter.sources.recording import MAX_BYTES, Recording
from exporter.sources.replay import HELD_UP_AFTER_S, ReplaySource

S = 1_000_000_000
THEN = 1_700_000_000 * S  # when it was recorded
NOW = 1_800_000_000 * S  # when it is played
PERIOD = 3 * S // 2  # three device readings, 0.5 s apart

HEADER = RecordingHeader(
    v=1, name="lab", started_unix_ns=THEN, product_version="0.1.0", interval_s=0.5
)


def device(at_ns: int, pid: int = 17) -> DeviceReading:
    sample = DeviceSample(processes=(ProcessMemory(pid=pid, used_bytes=600),))
    facts = DeviceFacts(index=0, uuid="GPU-1")
    return DeviceReading(
        ts_unix_ns=THEN + at_ns, interval_s=0.5, devices=(Device(facts=facts, sample=sample),)
    )


def kv(
    at_ns: int, queries: int, hits: int, *, engine: str = "0", preemptions: int | None = None
) -> KvRecord:
    return KvRecord(
        v=1,
        ts_unix_ns=THEN + at_ns,
        pid=9,
        replica="r",
        engine=engine,
        interval_s=1.0,
        prefix_cache=PrefixCache(query_tokens=queries, hit_tokens=hits),
        preemptions=preemptions,
    )


def torch(at_ns: int, rank: int, alloc_retries: int) -> TorchRecord:
    return TorchRecord(
        v=1,
        ts_unix_ns=THEN + at_ns,
        pid=20,
        replica="r",
        engine="0",
        interval_s=1.0,
        rank=rank,
        reserved_bytes=5000,
        alloc_retries=alloc_retries,
    )


def engine(at_ns: int, errors: int, plugin_seconds: float) -> EngineRecord:
    return EngineRecord(
        v=1,
        ts_unix_ns=THEN + at_ns,
        pid=9,
        replica="r",
        engine="0",
        interval_s=30.0,
        start_unix_ns=THEN - 60 * S,
        errors=errors,
        plugin_seconds=plugin_seconds,
    )


def recording(directory: Path, lines: Iterable[RecordingLine]) -> Recording:
    path = directory / "lab.jsonl"
    path.write_bytes(b"".join(map(encode_line, [HEADER, *lines])))
    return Recording.load(path)


def drained(source: ReplaySource) -> list[Reading]:
    return list(iter(source.read, None))


def played_records(loaded: Recording, seconds: float) -> list[TraceRecord]:
    return [
        record
        for event in loaded.events_until(seconds, NOW)
        if isinstance(event.reading, TraceReading)
        for record in event.reading.records
    ]


@pytest.fixture
def three_ticks(tmp_path: Path) -> Recording:
    return recording(
        tmp_path,
        [
            kv(-S // 4, 100, 10),
            device(0),
            torch(S // 4, 0, 3),
            kv(S // 4, 130, 25),
            device(S // 2),
            kv(S // 2, 170, 40),
            device(S),
        ],
    )


def test_records_play_just_before_the_device_reading_that_follows_them(
    three_ticks: Recording,
) -> None:
    assert three_ticks.header == HEADER
    assert three_ticks.duration_s == 1.5
    assert [(event.at_s, type(event.reading)) for event in three_ticks.events] == [
        (0.0, TraceReading),
        (0.0, DeviceReading),
        (0.5, TraceReading),
        (0.5, DeviceReading),
        (1.0, TraceReading),
        (1.0, DeviceReading),
    ]
    assert three_ticks.events[2].reading == TraceReading(
        records=(torch(S // 4, 0, 3), kv(S // 4, 130, 25)), lines={}, dropped_bytes=0, files=0
    )


def test_records_of_a_tick_that_was_never_finished_are_left_out(tmp_path: Path) -> None:
    loaded = recording(tmp_path, [device(0), kv(S // 4, 100, 10)])
    assert [event.reading for event in loaded.events] == [device(0)]


def test_a_reading_from_before_its_predecessor_plays_right_after_it(tmp_path: Path) -> None:
    loaded = recording(tmp_path, [device(0), device(S), device(S // 2), device(2 * S)])
    assert [event.at_s for event in loaded.events] == [0.0, 1.0, 1.0, 2.0]


def test_a_compressed_recording_is_read_like_a_plain_one(
    three_ticks: Recording, tmp_path: Path
) -> None:
    packed = tmp_path / "lab.jsonl.gz"
    packed.write_bytes(gzip.compress((tmp_path / "lab.jsonl").read_bytes()))
    assert Recording.load(packed).events == three_ticks.events


def test_a_reading_comes_when_it_is_due_and_not_before(three_ticks: Recording) -> None:
    clock = ManualClock(NOW, monotonic_s=1000.0)
    source = ReplaySource(three_ticks, clock)
    assert [type(reading) for reading in drained(source)] == [TraceReading, DeviceReading]

    clock.advance(0.25)
    assert drained(source) == []

    clock.advance(0.25)
    trace, reading = drained(source)
    assert isinstance(trace, TraceReading)
    assert [record.ts_unix_ns for record in trace.records] == [NOW + S // 4, NOW + S // 4]
    assert isinstance(reading, DeviceReading)
    assert reading.ts_unix_ns == NOW + S // 2


def test_it_is_a_source(three_ticks: Recording) -> None:
    source: Source = ReplaySource(three_ticks, ManualClock(NOW))
    assert (source.name, source.interval_s, dict(source.errors)) == ("replay", 0.05, {})
    source.close()


def test_a_quick_recording_is_looked_at_ten_times_an_interval(three_ticks: Recording) -> None:
    quick = Recording(replace(three_ticks.header, interval_s=0.1), three_ticks.events)
    assert ReplaySource(quick, ManualClock(NOW)).interval_s == pytest.approx(0.01)


def test_a_late_reading_carries_the_time_at_which_it_was_due(three_ticks: Recording) -> None:
    clock = ManualClock(NOW)
    source = ReplaySource(three_ticks, clock)
    drained(source)
    clock.advance(0.53125)
    *_, reading = drained(source)
    assert isinstance(reading, DeviceReading)
    assert reading.ts_unix_ns == NOW + S // 2


def test_after_the_end_it_starts_again_one_interval_later(three_ticks: Recording) -> None:
    clock = ManualClock(NOW)
    source = ReplaySource(three_ticks, clock)
    times = []
    for _ in range(8):  # 0, 0.5 … 3.5 s: two laps and the first two ticks of the third
        times += [r.ts_unix_ns for r in drained(source) if isinstance(r, DeviceReading)]
        clock.advance(0.5)
    assert times == [NOW + tick * S // 2 for tick in range(8)]


@pytest.mark.parametrize("step_s", [HELD_UP_AFTER_S + 1, 3600.0], ids=["stall", "suspended"])
def test_a_play_that_was_held_up_goes_on_from_where_it_was_without_a_burst(
    three_ticks: Recording, step_s: float
) -> None:
    clock = ManualClock(NOW)
    source = ReplaySource(three_ticks, clock)
    drained(source)
    clock.advance(step_s)
    trace, reading = drained(source)
    assert isinstance(reading, DeviceReading)
    assert reading.ts_unix_ns == clock.unix_ns()
    assert isinstance(trace, TraceReading)
    assert trace.records[0].ts_unix_ns == clock.unix_ns() - S // 4
    clock.advance(0.5)
    assert len(drained(source)) == 2


class SetClock(ManualClock):
    """A machine's clock that someone sets: unix time jumps, monotonic time does not."""

    jump_ns = 0

    def unix_ns(self) -> int:
        return super().unix_ns() + self.jump_ns


@pytest.mark.parametrize("jump_ns", [-3600 * S, 3600 * S], ids=["back", "forward"])
def test_times_follow_a_clock_that_was_set(three_ticks: Recording, jump_ns: int) -> None:
    clock = SetClock(NOW)
    source = ReplaySource(three_ticks, clock)
    drained(source)
    clock.jump_ns = jump_ns
    clock.advance(0.5)
    *_, reading = drained(source)
    assert isinstance(reading, DeviceReading)
    assert reading.ts_unix_ns == NOW + S // 2 + jump_ns


def test_counters_go_on_over_laps_without_a_jump_and_each_writer_for_itself(
    tmp_path: Path,
) -> None:
    loaded = recording(
        tmp_path,
        [
            *(kv(0, 100, 10, preemptions=1), kv(0, 1000, 900, engine="1")),
            *(torch(0, 0, 3), torch(0, 1, 40), engine(0, 2, 0.5)),
            device(0),
            *(kv(S // 2, 130, 25), kv(S // 2, 1005, 901, engine="1")),
            *(torch(S // 2, 0, 4), torch(S // 2, 1, 40)),
            device(S // 2),
            *(kv(S, 170, 40, preemptions=6), engine(S, 2, 0.75)),
            device(S),
        ],
    )
    records = played_records(loaded, seconds=4.4)  # three laps
    kvs = [record for record in records if isinstance(record, KvRecord)]
    queries = [
        (record.prefix_cache.query_tokens, record.prefix_cache.hit_tokens)
        for record in kvs
        if record.prefix_cache is not None and record.engine == "0"
    ]
    # One lap adds 70 queries and 30 hits.
    assert queries == [
        *[(100, 10), (130, 25), (170, 40)],
        *[(170, 40), (200, 55), (240, 70)],
        *[(240, 70), (270, 85), (310, 100)],
    ]
    other_queries = [
        record.prefix_cache.query_tokens
        for record in kvs
        if record.prefix_cache is not None and record.engine == "1"
    ]
    assert other_queries == [1000, 1005, 1005, 1010, 1010, 1015]
    preemptions = [record.preemptions for record in kvs if record.engine == "0"]
    assert preemptions == [1, None, 6, 6, None, 11, 11, None, 16]
    retries = [(r.rank, r.alloc_retries) for r in records if isinstance(r, TorchRecord)]
    assert [count for rank, count in retries if rank == 0] == [3, 4, 4, 5, 5, 6]
    assert [count for rank, count in retries if rank == 1] == [40] * 6
    costs = [(r.errors, r.plugin_seconds) for r in records if isinstance(r, EngineRecord)]
    assert costs == [(2, 0.5), (2, 0.75), (2, 0.75), (2, 1.0), (2, 1.0), (2, 1.25)]


def test_every_cumulative_group_of_a_scheduler_goes_on(tmp_path: Path) -> None:
    def cumulative(at_ns: int, step: int) -> KvRecord:
        return KvRecord(
            v=1,
            ts_unix_ns=THEN + at_ns,
            pid=9,
            replica="r",
            engine="0",
            interval_s=1.0,
            prefix_cache=PrefixCache(
                query_tokens=100 * step,
                hit_tokens=10 * step,
                vllm_query_tokens=200 * step,
                vllm_hit_tokens=20 * step,
            ),
            tokens=ScheduledTokens(prompt=7 * step, generation=3 * step),
            evictions=5 * step,
            running=step,
        )

    loaded = recording(
        tmp_path, [cumulative(0, 1), device(0), cumulative(S // 2, 2), device(S // 2)]
    )
    last = played_records(loaded, seconds=1.5)[-1]  # the second record, in the second lap
    assert last == KvRecord(
        v=1,
        ts_unix_ns=NOW + S // 2 + S,
        pid=9,
        replica="r",
        engine="0",
        interval_s=1.0,
        prefix_cache=PrefixCache(
            query_tokens=300, hit_tokens=30, vllm_query_tokens=600, vllm_hit_tokens=60
        ),
        tokens=ScheduledTokens(prompt=21, generation=9),
        evictions=15,
        running=2,
    )


def test_a_lap_is_no_restart_pids_and_start_times_remain(tmp_path: Path) -> None:
    loaded = recording(tmp_path, [engine(0, 0, 0.5), device(0), device(S // 2), device(S)])
    first, second = played_records(loaded, seconds=1.5)
    assert isinstance(first, EngineRecord)
    assert isinstance(second, EngineRecord)
    assert first.ts_unix_ns == NOW
    assert second.ts_unix_ns == NOW + PERIOD
    assert first.start_unix_ns == second.start_unix_ns == NOW - 60 * S
    assert first.pid == second.pid == 9


def test_a_process_that_was_held_up_keeps_its_start_time(tmp_path: Path) -> None:
    loaded = recording(tmp_path, [engine(0, 0, 0.5), device(0)])
    clock = ManualClock(NOW)
    source = ReplaySource(loaded, clock)
    drained(source)
    clock.advance(100.0)
    trace, _ = drained(source)
    assert isinstance(trace, TraceReading)
    (record,) = trace.records
    assert isinstance(record, EngineRecord)
    assert record.ts_unix_ns == NOW + 100 * S
    assert record.start_unix_ns == NOW - 60 * S


def test_a_recorded_pid_is_not_looked_up_on_this_machine(tmp_path: Path) -> None:
    loaded = recording(tmp_path, [device(0, pid=os.getpid())])
    reading = ReplaySource(loaded, ManualClock(NOW)).read()
    assert isinstance(reading, DeviceReading)
    assert reading.devices == device(0, pid=os.getpid()).devices


@pytest.mark.parametrize(
    ("seconds", "at_s"),
    [
        (0.0, [0.0]),
        (0.499, [0.0]),
        (0.5, [0.0, 0.5]),
        (1.4, [0.0, 0.5, 1.0]),
        (2.0, [0.0, 0.5, 1.0, 1.5, 2.0]),
    ],
    ids=["first moment", "just before", "the moment itself", "one lap", "into the second lap"],
)
def test_the_first_seconds_are_given_unpaced(
    three_ticks: Recording, seconds: float, at_s: list[float]
) -> None:
    events = [
        event
        for event in three_ticks.events_until(seconds, NOW)
        if isinstance(event.reading, DeviceReading)
    ]
    assert [event.at_s for event in events] == at_s
    assert [event.reading for event in events] == [
        DeviceReading(ts_unix_ns=NOW + round(at * S), interval_s=0.5, devices=device(0).devices)
        for at in at_s
    ]


def test_a_frozen_play_gives_what_a_paced_one_gives(three_ticks: Recording) -> None:
    clock = ManualClock(NOW)
    source = ReplaySource(three_ticks, clock)
    paced = []
    for _ in range(6):
        paced += drained(source)
        clock.advance(0.5)
    assert [event.reading for event in three_ticks.events_until(2.5, NOW)] == paced


def content(*lines: RecordingLine) -> bytes:
    return b"".join(map(encode_line, lines))


def test_a_last_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "killed.jsonl"
    path.write_bytes(content(HEADER, device(0), device(S // 2))[:-9])
    assert len(Recording.load(path).events) == 1


@pytest.mark.parametrize(
    ("name", "written", "reason"),
    [
        ("x.jsonl", b"", "x.jsonl: the recording is empty"),
        ("x.jsonl", content(device(0)), "x.jsonl: line 1: a recording starts with its header"),
        ("x.jsonl", content(HEADER), "x.jsonl: the recording holds no device reading"),
        ("x.jsonl", content(HEADER, kv(0, 1, 1)), "x.jsonl: the recording holds no device reading"),
        ("x.jsonl", content(HEADER, device(0), HEADER), "x.jsonl: line 3: a second header"),
        ("x.jsonl", content(HEADER, device(0)) + b"{}\n", "x.jsonl: line 3: Object missing"),
        ("x.jsonl.gz", content(HEADER, device(0)), "x.jsonl.gz: Not a gzipped file"),
        (
            "x.jsonl.gz",
            gzip.compress(content(HEADER, device(0)))[:-12],
            "x.jsonl.gz: Compressed file ended",
        ),
        ("x.jsonl.gz", gzip.compress(bytes(MAX_BYTES + 1)), "x.jsonl.gz: the recording is longer"),
    ],
    ids=[
        "empty",
        "no header",
        "header only",
        "no device reading",
        "two headers",
        "bad line",
        "not compressed",
        "compressed and cut off",
        "too long",
    ],
)
def test_a_file_that_is_no_recording_is_named_with_its_reason(
    tmp_path: Path, name: str, written: bytes, reason: str
) -> None:
    path = tmp_path / name
    path.write_bytes(written)
    with pytest.raises(RecordingError) as caught:
        Recording.load(path)
    assert str(caught.value).startswith(f"{tmp_path}/{reason}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda _: None, "No such file or directory"),
        (Path.mkdir, "Is a directory"),
    ],
    ids=["missing", "directory"],
)
def test_a_file_that_cannot_be_opened_is_named_with_its_reason(
    tmp_path: Path, make: Callable[[Path], None], reason: str
) -> None:
    path = tmp_path / "x.jsonl"
    make(path)
    with pytest.raises(RecordingError) as caught:
        Recording.load(path)
    assert str(caught.value) == f"{path}: {reason}"
