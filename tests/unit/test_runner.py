"""Threads that read sources: deadlines, back-off, health."""

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from exporter.clock import ManualClock, SystemClock
from exporter.errors import SourceUnavailable
from exporter.records.source import Reading
from exporter.runner import HANG_S, MAX_BACKOFF_S, Runner, SourceLoop
from tests.readings import START_UNIX_NS, device_reading

READING = device_reading()
UNAVAILABLE = SourceUnavailable("library_not_found", "no driver here", "install it")


class ScriptedSource:
    """Gives or raises what the script says, one entry a read; each read may take time."""

    name = "scripted"
    interval_s = 0.5

    def __init__(self, clock: ManualClock, *script: Reading | Exception | None) -> None:
        self.errors = {"one_gpu_lost": 2}
        self.is_closed = False
        self.read_takes_s = 0.0
        self._clock = clock
        self._script: Iterator[Reading | Exception | None] = iter(script)

    def read(self) -> Reading | None:
        self._clock.advance(self.read_takes_s)
        step = next(self._script)
        if isinstance(step, Exception):
            raise step
        return step

    def close(self) -> None:
        self.is_closed = True


class TurnedClock(threading.Event):
    """A loop's wake-up whose waits move the clock instead of time, and end it after some turns."""

    loop: SourceLoop

    def __init__(self, clock: ManualClock, turns: int) -> None:
        super().__init__()
        self.waits_s: list[float] = []
        self._clock = clock
        self._turns = turns

    def wait(self, timeout: float | None = None) -> bool:
        self.waits_s.append(timeout or 0.0)
        self._clock.advance(timeout or 0.0)
        if len(self.waits_s) == self._turns:
            self.loop.end()
        return self.is_set()


def run_for(
    turns: int, source: "ScriptedSource", clock: ManualClock
) -> tuple[SourceLoop, list[float]]:
    """Run a loop for so many reads; it and how long it waited after each."""
    turned = TurnedClock(clock, turns)
    turned.loop = SourceLoop(source, clock, turned)
    turned.loop.run(lambda _reading: None)
    return turned.loop, turned.waits_s


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_UNIX_NS)


def test_before_its_first_read_a_source_is_not_up(clock: ManualClock) -> None:
    health = SourceLoop(ScriptedSource(clock), clock).health()
    assert (health.is_up, health.last_success_unix_s) == (False, None)


def test_a_reading_is_handed_on_and_makes_the_source_up(clock: ManualClock) -> None:
    taken: list[Reading] = []
    loop = SourceLoop(ScriptedSource(clock, READING, None), clock)
    loop.read_once(taken.append)
    loop.read_once(taken.append)
    assert taken == [READING]
    health = loop.health()
    assert (health.is_up, health.last_success_unix_s) == (True, START_UNIX_NS / 1e9)
    assert sum(health.durations.counts) == 2


def test_failures_are_counted_by_reason_beside_the_sources_own_errors(clock: ManualClock) -> None:
    loop = SourceLoop(ScriptedSource(clock, UNAVAILABLE, UNAVAILABLE, ValueError("odd")), clock)
    for _ in range(3):
        loop.read_once(lambda _reading: None)
    health = loop.health()
    assert not health.is_up
    assert health.errors == {"library_not_found": 2, "internal_error": 1, "one_gpu_lost": 2}


def test_a_change_of_state_is_said_once_with_the_fix(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    loop = SourceLoop(ScriptedSource(clock, UNAVAILABLE, UNAVAILABLE, READING, READING), clock)
    for _ in range(4):
        loop.read_once(lambda _reading: None)
    assert [record.getMessage() for record in caplog.records] == [
        "source scripted: down: no driver here; install it",
        "source scripted: back",
    ]


def test_deadlines_do_not_drift_with_the_time_a_read_takes(clock: ManualClock) -> None:
    source = ScriptedSource(clock, None, None, None)
    source.read_takes_s = 0.2
    _, waits_s = run_for(3, source, clock)
    assert waits_s == pytest.approx([0.3, 0.3, 0.3])
    assert source.is_closed


def test_after_a_stall_missed_samples_are_counted_and_not_made_up_for(clock: ManualClock) -> None:
    source = ScriptedSource(clock, None, None)
    source.read_takes_s = 1.7  # due again at 0.5: 1.2 s late, so 2 whole samples were missed
    loop, waits_s = run_for(1, source, clock)
    assert waits_s == [0.0]
    assert loop.health().missed_samples == 2


def test_failures_back_off_up_to_half_a_minute_and_success_ends_that(clock: ManualClock) -> None:
    source = ScriptedSource(clock, *[UNAVAILABLE] * 7, None)
    _, waits_s = run_for(8, source, clock)
    assert waits_s == [1.0, 2.0, 4.0, 8.0, 16.0, MAX_BACKOFF_S, MAX_BACKOFF_S, 0.5]


def test_a_state_that_ends_without_notice_is_looked_at_every_second(clock: ManualClock) -> None:
    waiting = SourceUnavailable("no_trace_files", "none yet", backs_off=False)
    source = ScriptedSource(clock, UNAVAILABLE, UNAVAILABLE, *[waiting] * 3, None)
    loop, waits_s = run_for(6, source, clock)
    assert waits_s == [1.0, 2.0, 1.0, 1.0, 1.0, 0.5]
    assert loop.health().errors["no_trace_files"] == 3


class HangingSource:
    """Its read does not come back before `release` is set."""

    name = "nvml"
    interval_s = 0.5

    def __init__(self) -> None:
        self.errors: dict[str, int] = {}
        self.entered = threading.Event()
        self.release = threading.Event()

    def read(self) -> Reading | None:
        self.entered.set()
        self.release.wait(30)
        return None

    def close(self) -> None:
        return None


def test_a_read_that_hangs_makes_its_source_down_and_is_said_once(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    source = HangingSource()
    loop = SourceLoop(source, clock)
    thread = threading.Thread(target=loop.read_once, args=(lambda _reading: None,))
    thread.start()
    assert source.entered.wait(10)
    loop.report_hang()
    clock.advance(HANG_S + 0.1)
    loop.report_hang()
    loop.report_hang()
    assert not loop.health().is_up
    source.release.set()
    thread.join(10)
    assert loop.health().is_up
    assert [record.getMessage() for record in caplog.records] == [
        "source nvml: a read has not come back for 3 s"
    ]


def test_stopping_leaves_a_hanging_read_behind_and_says_which() -> None:
    hanging, quick = HangingSource(), ScriptedSource(ManualClock(0), *[None] * 1000)
    runner = Runner([hanging, quick], SystemClock())
    runner.start(lambda _reading: None)
    assert hanging.entered.wait(10)
    assert runner.stop(timeout_s=0.2) == ["source-nvml"]
    assert quick.is_closed
    hanging.release.set()


def wait_until(is_there: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 10
    while not is_there():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)  # between two looks


class RareSource:
    """Counts its reads, of which the second would come in an hour."""

    interval_s = 3600.0

    def __init__(self, name: str) -> None:
        self.name = name
        self.errors: dict[str, int] = {}
        self.reads = 0
        self.is_closed = False

    def read(self) -> Reading | None:
        self.reads += 1
        return None

    def close(self) -> None:
        self.is_closed = True


def test_of_replaced_sources_those_that_stay_go_on_at_once_with_their_counts() -> None:
    staying, leaving, coming = RareSource("staying"), RareSource("leaving"), RareSource("coming")
    runner = Runner([staying, leaving], SystemClock())
    runner.start(lambda _reading: None)
    wait_until(lambda: staying.reads == leaving.reads == 1)
    assert runner.replace([staying, coming], timeout_s=10) == []
    assert leaving.is_closed
    wait_until(lambda: (staying.reads, coming.reads) == (2, 1))
    wait_until(lambda: [sum(h.durations.counts) for h in runner.health()] == [2, 1])
    assert [health.name for health in runner.health()] == ["staying", "coming"]
    assert runner.stop(timeout_s=10) == []
    assert (staying.is_closed, coming.is_closed, leaving.reads) == (True, True, 1)


def test_sources_replaced_before_the_start_are_read_by_one_thread_each() -> None:
    staying, leaving, coming = RareSource("staying"), RareSource("leaving"), RareSource("coming")
    runner = Runner([staying, leaving], SystemClock())
    assert runner.replace([staying, coming], timeout_s=10) == []
    runner.start(lambda _reading: None)
    names = [thread.name for thread in threading.enumerate()]
    assert sorted(name for name in names if name.startswith("source-")) == [
        "source-coming",
        "source-staying",
        "source-watch",
    ]
    assert runner.stop(timeout_s=10) == []
    assert leaving.reads == 0


def test_health_can_be_asked_for_while_new_reasons_come(clock: ManualClock) -> None:
    class Failing(ScriptedSource):
        reads = 0

        def read(self) -> Reading | None:
            self.reads += 1
            self.errors[f"own_{self.reads % 97}"] = 1
            raise SourceUnavailable(f"reason_{self.reads}", "no")

    loop, is_over = SourceLoop(Failing(clock), clock), threading.Event()
    logging.getLogger("exporter.runner").disabled = True

    def fail() -> None:
        while not is_over.is_set():
            loop.read_once(lambda _reading: None)

    thread = threading.Thread(target=fail)
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        for _ in range(300):
            assert not loop.health().is_up
    finally:
        is_over.set()
        thread.join(10)
        sys.setswitchinterval(interval_s)
        logging.getLogger("exporter.runner").disabled = False
