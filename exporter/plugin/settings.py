"""What the environment asks of the trace; a value that cannot be used gives way to its default."""

import logging
import math
import socket
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from exporter.plugin.entrypoint import TRACE_DIR_VARIABLE
from exporter.plugin.facts import as_text

_log = logging.getLogger(__name__)


class TraceSettings(Struct, frozen=True, kw_only=True):
    """Settings of one process, from variables that start with VLLM_MEMORY_TRACE_.

    `directory` (_DIR): where the files go. `replica` (_REPLICA): name of this vLLM server, else
    the host name. `interval_s` (_INTERVAL): seconds between records, 0.1 to 60.
    `max_directory_bytes` (_MAX_BYTES): cap of the directory as a whole, ≥ 64 KiB. `worst_tables`
    (_WORST_TABLES): how many of the worst page tables to describe every 10 s, 0 to 64.
    """

    directory: Path
    replica: str
    interval_s: float = 1.0
    max_directory_bytes: int = 32 * 1024 * 1024
    worst_tables: int = 0

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> "TraceSettings":
        """Read `environ`. Raises: KeyError: VLLM_MEMORY_TRACE_DIR is not set."""
        return cls(
            directory=Path(environ[TRACE_DIR_VARIABLE]),
            replica=as_text(environ.get("VLLM_MEMORY_TRACE_REPLICA") or socket.gethostname())
            or "unknown",
            interval_s=_number(environ, "VLLM_MEMORY_TRACE_INTERVAL", 1.0, 0.1, 60.0),
            max_directory_bytes=int(
                _number(environ, "VLLM_MEMORY_TRACE_MAX_BYTES", 32 * 2**20, 2**16, 2**50)
            ),
            worst_tables=int(_number(environ, "VLLM_MEMORY_TRACE_WORST_TABLES", 0, 0, 64)),
        )


def _number(
    environ: Mapping[str, str], name: str, default: float, least: float, most: float
) -> float:
    text = environ.get(name, "").strip()
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if least <= value <= most:
        return value
    _log.warning("%s=%r is not a number from %g to %g: using %g", name, text, least, most, default)
    return default
