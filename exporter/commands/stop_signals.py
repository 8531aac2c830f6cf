"""Ctrl-C and SIGTERM end what a command does, not the command: it still tells what it has."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def set_by_signals(stopped: threading.Event) -> Iterator[None]:
    """Within the block SIGINT and SIGTERM set `stopped`; main thread only."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
