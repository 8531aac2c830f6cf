"""SIGUSR1 lets go of the driver and takes it up again; knows no driver."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def toggled_by_sigusr1(toggle: Callable[[], None]) -> Iterator[None]:
    """Within the block SIGUSR1 calls `toggle`; main thread only."""

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        toggle()

    former = signal.signal(signal.SIGUSR1, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, former)
