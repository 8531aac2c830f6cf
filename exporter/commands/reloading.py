"""Loads the settings again while the daemon runs; knows no signals and no HTTP."""

import logging
from collections.abc import Callable
from typing import TypeVar

from exporter.errors import ConfigError

Loaded = TypeVar("Loaded")

log = logging.getLogger(__name__)


def reload(load: Callable[[], Loaded], take: Callable[[Loaded | None], None]) -> None:
    """Load and take the settings; what cannot be used changes nothing.

    Args: load: reads the settings anew. take: puts them in force; gets None when none could be
        read. Both raise ConfigError.
    Raises: ConfigError: its text says what and why; the log has it, too.
    """
    try:
        take(_loaded(load, take))
    except ConfigError as exc:
        for line in str(exc).splitlines():
            log.error("settings not loaded, the former ones stay: %s", line)
        raise
    log.info("settings loaded again")


def _loaded(load: Callable[[], Loaded], take: Callable[[Loaded | None], None]) -> Loaded:
    try:
        return load()
    except BaseException:
        take(None)
        raise
