"""The writer's thread with a source of the test's own; no vLLM, no sleeping to wait for it."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from exporter.plugin import trace_writer
from exporter.plugin.facts import identity
from exporter.plugin.trace_file import TraceFile
from exporter.plugin.trace_writer import TraceWriter
from exporter.records.trace import EngineRecord, KvRecord, TraceRecord

WHO = identity(None, "node", "engine")
PATIENCE_S = 10.0


def kv(number: int) -> KvRecord:
    return KvRecord(**WHO.header(1.0), preemptions=number)


class Source:
    """Says what it is told to say; sets an event at each tick."""

    def __init__(self) -> None:
        self.is_gone = False
        self.has_news = False
        self.due: list[TraceRecord] = []
        self.pauses: list[bool] = []
        self.told: list[tuple[int, int]] = []
        self.on_tick: Callable[[], None] = lambda: None
        self.on_pause: Callable[[], None] = lambda: None

    def set_paused(self, is_paused: bool) -> None:
        self.pauses.append(is_paused)
        self.on_pause()

    def tick(self) -> Sequence[TraceRecord]:
        self.on_tick()
        due, self.due = self.due, []
        return due

    def last(self) -> Sequence[TraceRecord]:
        return (kv(99),)

    def facts(self, writer_errors: int, dropped_records: int) -> EngineRecord:
        self.told.append((writer_errors, dropped_records))
        return EngineRecord(
            **WHO.header(30.0), errors=writer_errors, dropped_records=dropped_records
        )

    def take_status_change(self) -> bool:
        news, self.has_news = self.has_news, False
        return news


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_writer, "TICK_S", 0.002)


def make(directory: Path, source: Source, cap: int = 2**20) -> TraceWriter:
    return TraceWriter(TraceFile(directory, WHO.file_name, cap), source)


def lines(directory: Path) -> list[dict[str, Any]]:
    """All lines of the file, each of which must be JSON."""
    return [json.loads(line) for line in (directory / WHO.file_name).read_text().splitlines()]


def wait_ticks(source: Source, number: int) -> None:
    """Until the thread has asked `number` times more."""
    reached = threading.Event()
    left = [number]

    def count() -> None:
        left[0] -= 1
        if left[0] <= 0:
            reached.set()

    source.on_tick = count
    assert reached.wait(PATIENCE_S)


def test_a_file_begins_with_the_facts_and_ends_with_a_last_sample(
    tmp_path: Path, source: Source
) -> None:
    writer = make(tmp_path, source)
    writer.start()
    for number in range(3):
        writer.put(kv(number))
    writer.close()
    read = lines(tmp_path)
    assert [line["type"] for line in read] == ["engine", "kv", "kv", "kv", "kv"]
    assert [line["preemptions"] for line in read[1:]] == [0, 1, 2, 99]


def test_what_the_source_has_due_is_written(tmp_path: Path, source: Source) -> None:
    source.due = [kv(7)]
    writer = make(tmp_path, source)
    writer.start()
    wait_ticks(source, 2)
    writer.close()
    assert [line.get("preemptions") for line in lines(tmp_path)] == [None, 7, 99]


def test_a_change_of_status_is_told_at_once(tmp_path: Path, source: Source) -> None:
    writer = make(tmp_path, source)
    writer.start()
    wait_ticks(source, 2)
    source.has_news = True
    wait_ticks(source, 2)
    writer.close()
    assert [line["type"] for line in lines(tmp_path)] == ["engine", "engine", "kv"]


def test_after_a_rotation_the_facts_come_first(tmp_path: Path, source: Source) -> None:
    writer = make(tmp_path, source, cap=40_000)
    writer.start()
    for number in range(400):
        writer.put(kv(number))
        if number % 20 == 0:
            wait_ticks(source, 2)
    writer.close()
    old = (tmp_path / f"{WHO.file_name}.1").read_text().splitlines()
    assert json.loads(old[0])["type"] == "engine"
    assert lines(tmp_path)[0]["type"] == "engine"


def test_a_file_named_pause_stops_sampling_and_its_removal_resumes_it(
    tmp_path: Path, source: Source
) -> None:
    (tmp_path / "pause").touch()
    paused = threading.Event()
    source.on_pause = paused.set
    ticks: list[int] = []
    source.on_tick = lambda: ticks.append(1)
    writer = make(tmp_path, source)
    writer.start()
    assert paused.wait(PATIENCE_S)
    assert not ticks
    (tmp_path / "pause").unlink()
    wait_ticks(source, 1)
    assert source.pauses == [True, False]
    writer.close()


def test_a_full_queue_drops_and_counts(tmp_path: Path, source: Source) -> None:
    writer = make(tmp_path, source)
    for number in range(trace_writer.QUEUE_RECORDS + 5):
        writer.put(kv(number))
    assert writer.dropped == 5


@pytest.mark.parametrize("fault", ["a file in its place", "a directory in the file's place"])
def test_an_unusable_place_costs_records_and_nothing_else(
    tmp_path: Path, source: Source, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "trace"
    if fault == "a file in its place":
        directory.touch()
    else:
        (directory / WHO.file_name).mkdir(parents=True)
    writer = make(directory, source)
    writer.start()
    writer.put(kv(1))
    wait_ticks(source, 5)
    writer.put(kv(2))
    wait_ticks(source, 5)
    assert writer.dropped == 2
    assert writer.errors == 1  # backed off: one try a second at first
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    writer.close()


def test_it_writes_again_when_the_place_has_become_usable(
    tmp_path: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_writer, "LEAST_BACK_OFF_S", 0.005)
    directory = tmp_path / "trace"
    directory.touch()
    writer = make(directory, source)
    writer.start()
    wait_ticks(source, 3)
    directory.unlink()
    written = threading.Event()
    source.on_tick = lambda: written.set() if (directory / WHO.file_name).exists() else None
    assert written.wait(PATIENCE_S)
    writer.close()
    first = lines(directory)[0]
    assert first["type"] == "engine"
    assert first["errors"] >= 1


def test_a_fault_of_the_source_is_counted_and_does_not_end_the_thread(
    tmp_path: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_writer, "LEAST_BACK_OFF_S", 0.005)

    def explode() -> None:
        raise RuntimeError("a fault in the plugin")

    source.on_tick = explode
    writer = make(tmp_path, source)
    writer.start()
    while writer.errors < 2:
        assert writer._thread.is_alive()
    wait_ticks(source, 3)
    writer.close()
    assert lines(tmp_path)[0]["errors"] >= 2


def test_the_thread_ends_when_the_source_is_gone(tmp_path: Path, source: Source) -> None:
    writer = make(tmp_path, source)
    writer.start()
    wait_ticks(source, 1)
    source.is_gone = True
    writer._thread.join(PATIENCE_S)
    assert not writer._thread.is_alive()


WRITING = """
import os, sys, time
from pathlib import Path
from tests.unit.test_plugin_trace_writer import Source, WHO, kv, make
writer = make(Path(sys.argv[1]), Source())
writer.start()
print(WHO.file_name, flush=True)
"""
ENDINGS = {
    "return": "writer.put(kv(5))",
    "exit": "writer.put(kv(5)); sys.exit(3)",
    "exception": "writer.put(kv(5)); raise ValueError",
    "multiprocessing child": (
        "import multiprocessing\n"
        "def work():\n"
        "    own = make(Path(sys.argv[1]) / 'child', Source()); own.start(); own.put(kv(5))\n"
        "child = multiprocessing.get_context('fork').Process(target=work)\n"
        "child.start(); child.join()"
    ),
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS.keys())
def test_what_is_queued_is_written_when_the_process_ends(tmp_path: Path, ending: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WRITING + ending, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        timeout=30,
    )
    directory = tmp_path / "child" if "child" in ending else tmp_path
    text = (directory / done.stdout.split()[0]).read_text()
    numbers = [json.loads(line).get("preemptions") for line in text.splitlines()]
    assert numbers == [None, 5, 99]


def test_kill_9_leaves_whole_lines_and_at_most_one_torn(tmp_path: Path) -> None:
    code = WRITING + "number = 0\nwhile True:\n    number += 1\n    writer.put(kv(number))\n"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": "."},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        path = tmp_path / process.stdout.readline().strip()
        while not path.exists() or path.stat().st_size < 200_000:
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    *whole, _ = path.read_bytes().split(b"\n")
    assert all(json.loads(line)["type"] in ("kv", "engine") for line in whole)


def test_a_forked_child_writes_nothing_to_its_parents_file(tmp_path: Path) -> None:
    code = WRITING + (
        "if os.fork() == 0:\n    writer.put(kv(6)); sys.exit(0)\nos.wait(); writer.put(kv(5))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        timeout=30,
    )
    text = (tmp_path / done.stdout.split()[0]).read_text()
    numbers = [json.loads(line).get("preemptions") for line in text.splitlines()]
    assert numbers == [None, 5, 99]
