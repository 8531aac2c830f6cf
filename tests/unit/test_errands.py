"""What is asked of the daemon: one after the other, whatever becomes of the one before."""

import logging
import signal
import threading

import pytest

from exporter.commands.errands import Errands
from exporter.errors import ConfigError

TIMEOUT_S = 10


def test_a_signal_and_a_client_ask_for_the_same() -> None:
    done: list[str] = []
    errands = Errands()
    with errands.at_signals({signal.SIGUSR2: lambda: done.append("signal")}):
        signal.raise_signal(signal.SIGUSR2)
        errands.ask(lambda: done.append("client")).result(TIMEOUT_S)
    assert done == ["signal", "client"]


def test_former_handlers_are_back_after_it() -> None:
    before = signal.getsignal(signal.SIGUSR2)
    with Errands().at_signals({signal.SIGUSR2: lambda: None}):
        assert signal.getsignal(signal.SIGUSR2) is not before
    assert signal.getsignal(signal.SIGUSR2) is before


@pytest.mark.parametrize(
    ("fault", "told"),
    [(ConfigError("told by who raised it"), 0), (RecursionError("a bug"), 1)],
    ids=["mistake", "bug"],
)
def test_one_that_fails_says_so_and_does_not_end_the_others(
    fault: Exception, told: int, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise fault

    errands = Errands()
    with errands.at_signals({}):
        assert errands.ask(fail).exception(TIMEOUT_S) is fault
        errands.ask(lambda: None).result(TIMEOUT_S)
    assert len([line for line in caplog.records if line.levelno == logging.ERROR]) == told


def test_one_that_nobody_waits_for_any_more_is_left_out() -> None:
    done: list[str] = []
    errands = Errands()
    errands.ask(lambda: done.append("cancelled")).cancel()
    with errands.at_signals({}):
        errands.ask(lambda: done.append("wanted")).result(TIMEOUT_S)
    assert done == ["wanted"]


def test_the_end_does_not_wait_for_one_that_hangs() -> None:
    is_over, has_begun = threading.Event(), threading.Event()

    def hang() -> None:
        has_begun.set()
        is_over.wait(60)

    errands = Errands()
    with errands.at_signals({}):
        hanging = errands.ask(hang)
        assert has_begun.wait(TIMEOUT_S)
    assert not hanging.done()
    is_over.set()
    hanging.result(TIMEOUT_S)
