"""How log lines look: logfmt for people and Loki, or one JSON object a line."""

import json
import logging
import sys
from datetime import UTC, datetime


def configure(level: str, log_format: str) -> None:
    """Send every logger's lines of at least `level` to standard error as ``logfmt`` or ``json``."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter(log_format))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class _Formatter(logging.Formatter):
    def __init__(self, log_format: str) -> None:
        super().__init__()
        self._is_json = log_format == "json"

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        if record.exc_info:
            message = f"{message}\n{self.formatException(record.exc_info)}"
        fields = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": message,
        }
        if self._is_json:
            return json.dumps(fields, ensure_ascii=False)
        return " ".join(f"{key}={_logfmt_value(value)}" for key, value in fields.items())


def _logfmt_value(value: str) -> str:
    needs_quotes = not value or any(char in value for char in ' "=\n')
    return json.dumps(value, ensure_ascii=False) if needs_quotes else value
