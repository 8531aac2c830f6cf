"""What is asked of the running daemon: one thing after the other, on a thread of their own."""

import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType

from exporter.errors import ConfigError

STOP_TIMEOUT_S = 0.5

Errand = Callable[[], None]

log = logging.getLogger(__name__)


class Errands:
    """Does what signal handlers and clients ask for; none of them waits for one that hangs."""

    def __init__(self) -> None:
        # the one queue that a signal handler may fill; None ends the thread
        self._asked: SimpleQueue[tuple[Errand, Future[None]] | None] = SimpleQueue()

    def ask(self, errand: Errand) -> "Future[None]":
        """Have it done; the result is there, or what it raised, when it was. From any thread."""
        done: Future[None] = Future()
        self._asked.put((errand, done))
        return done

    @contextmanager
    def at_signals(self, errands: Mapping[signal.Signals, Errand]) -> Iterator[None]:
        """Do what is asked within the block, and at each signal its errand; main thread only."""

        def ask(number: int, _frame: FrameType | None) -> None:
            self.ask(errands[signal.Signals(number)])

        former = {number: signal.signal(number, ask) for number in errands}
        thread = threading.Thread(target=self._run, name="errands", daemon=True)
        thread.start()
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)
            self._asked.put(None)
            thread.join(STOP_TIMEOUT_S)

    def _run(self) -> None:
        while (asked := self._asked.get()) is not None:
            errand, done = asked
            if not done.set_running_or_notify_cancel():
                continue
            try:
                errand()
            except Exception as exc:  # one that fails must not end the others
                if not isinstance(exc, ConfigError):  # that is the operator's, who was told
                    log.error("what was asked for failed", exc_info=exc)
                done.set_exception(exc)
            else:
                done.set_result(None)
