"""Loads the settings again while the daemon runs: on SIGHUP and on request; knows no HTTP."""

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType
from typing import Generic, TypeVar

from exporter.errors import ConfigError

Loaded = TypeVar("Loaded")

log = logging.getLogger(__name__)


class Reloading(Generic[Loaded]):
    """One load after the other, whoever asks for it.

    Args: load: reads the settings anew. take: puts them in force; gets None when none could be
        read. Both raise ConfigError.
    """

    def __init__(self, load: Callable[[], Loaded], take: Callable[[Loaded | None], None]) -> None:
        self._load = load
        self._take = take
        self._lock = threading.Lock()
        self._signals: SimpleQueue[bool] = SimpleQueue()  # the one queue that a handler may fill

    def reload(self) -> None:
        """Load and take the settings; what cannot be used changes nothing.

        Raises: ConfigError: its text says what and why; the log has it, too.
        """
        with self._lock:
            try:
                loaded = self._load()
            except ConfigError as exc:
                self._take(None)
                raise _told(exc) from exc
            try:
                self._take(loaded)
            except ConfigError as exc:
                raise _told(exc) from exc
            log.info("settings loaded again")

    @contextmanager
    def on_sighup(self) -> Iterator[None]:
        """Within the block SIGHUP reloads, on a thread of its own; main thread only."""

        def ask(_number: int, _frame: FrameType | None) -> None:
            self._signals.put(True)

        former = signal.signal(signal.SIGHUP, ask)
        thread = threading.Thread(target=self._reload_on_signals, name="reload", daemon=True)
        thread.start()
        try:
            yield
        finally:
            signal.signal(signal.SIGHUP, former)
            self._signals.put(False)
            thread.join()

    def _reload_on_signals(self) -> None:
        while self._signals.get():
            try:
                self.reload()
            except ConfigError:
                continue  # told already


def _told(mistakes: ConfigError) -> ConfigError:
    for line in str(mistakes).splitlines():
        log.error("settings not loaded, the former ones stay: %s", line)
    return mistakes
