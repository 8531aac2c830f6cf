"""Settings: defaults, overlaid by a YAML file, overlaid by flags. Reads the file, nothing else.

One table says for each setting its key (in the file and, with ``--``, as a flag), how to read it
and what is allowed; a mistake becomes one line naming its place, its value and what is allowed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from exporter.errors import ConfigError
from exporter.sources.engine_url import EngineUrl, read_engine_urls

LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("logfmt", "json")
DURATION_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be set; field names are the flags' with `_` for `.` and units added."""

    web_listen_address: str = ":10411"
    web_telemetry_path: str = "/metrics"
    web_enable_lifecycle: bool = False
    web_config_file: str | None = None
    log_level: str = "info"
    log_format: str = "logfmt"
    nvml_enabled: bool = True
    nvml_interval_s: float = 0.5
    nvml_gpm: bool = False
    trace_paths: tuple[str, ...] = ()
    engine_urls: tuple[EngineUrl, ...] = ()
    kubernetes_pod_resources: str | None = None
    conflicts_expected_processes: tuple[str, ...] = ()
    replay: str | None = None
    replay_freeze_at_s: float | None = None


@dataclass(frozen=True)
class _Setting:
    key: str
    field: str
    read: Callable[[object], object]
    allowed: str
    fixed_because: str = ""  # why it cannot change while the program runs; empty when it can


def load(
    config_file: str | None, flags: Mapping[str, object], base: Settings | None = None
) -> Settings:
    """Settings in force: `base` (or the defaults) ← the YAML file, if any ← flags that were given.

    Args: flags: key as in the table (``nvml.interval``) → raw value.
    Raises: ConfigError: its text has one line for each mistake.
    """
    mistakes: list[str] = []
    values: dict[str, object] = {}
    if config_file is not None:
        for key, raw in _file_entries(Path(config_file)):
            _take(values, mistakes, f"{config_file}: {key}", key, raw)
    for key, raw in flags.items():
        _take(values, mistakes, f"--{key}", key, raw)
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    settings = msgspec.structs.replace(base or Settings(), **values)
    if settings.replay_freeze_at_s is not None and settings.replay is None:
        raise ConfigError("--replay.freeze-at: needs --replay FILE (or the demo command)")
    return settings


def require_changeable(former: Settings, settings: Settings) -> None:
    """Raises: ConfigError: a line for each setting that differs and cannot while we run."""
    mistakes = [
        f"{setting.key}: cannot change from {before!r} to {after!r} while it runs:"
        f" {setting.fixed_because}; restart"
        for setting in _TABLE.values()
        if setting.fixed_because
        and (before := getattr(former, setting.field))
        != (after := getattr(settings, setting.field))
    ]
    if mistakes:
        raise ConfigError("\n".join(mistakes))


def _take(
    values: dict[str, object], mistakes: list[str], origin: str, key: str, raw: object
) -> None:
    setting = _TABLE.get(key)
    if setting is None:
        mistakes.append(f"{origin}: no such setting; allowed: {', '.join(sorted(_TABLE))}")
        return
    try:
        values[setting.field] = setting.read(raw)
    except ConfigError as exc:
        mistakes.extend(f"{origin}: {line}" for line in str(exc).splitlines())
    except ValueError:
        mistakes.append(f"{origin}: {raw!r} is not allowed; use {setting.allowed}")


def _file_entries(path: Path) -> Iterator[tuple[str, object]]:
    """The file's settings as (dotted key, raw value)."""
    import yaml  # a megabyte, which a daemon without a file does not need

    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise ConfigError(f"{path}: cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path}: is not UTF-8 at byte {exc.start}") from exc
    except yaml.MarkedYAMLError as exc:
        line = exc.problem_mark.line + 1 if exc.problem_mark else 1
        raise ConfigError(f"{path}: line {line}: not YAML: {exc.problem}") from exc
    except RecursionError as exc:
        raise ConfigError(f"{path}: not YAML: nested too deeply") from exc
    except (yaml.YAMLError, ValueError) as exc:  # a control character; a date that is none
        raise ConfigError(f"{path}: not YAML: {' '.join(str(exc).split())}") from exc
    if document is None:
        return
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: must hold sections such as 'nvml:', not {document!r}")
    yield from _flattened(document)


def _flattened(document: dict[Any, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in document.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and key not in _TABLE:
            yield from _flattened(value, f"{key}.")
        else:
            yield key, value


def _text(raw: object) -> str:
    if not isinstance(raw, str) or not raw:
        raise ValueError(raw)
    return raw


def _values(raw: object) -> Sequence[object]:
    return raw if isinstance(raw, list | tuple) else [raw]


def _texts(raw: object) -> tuple[str, ...]:
    return tuple(_text(value) for value in _values(raw))


def _engine_urls(raw: object) -> tuple[EngineUrl, ...]:
    return read_engine_urls(_values(raw))


def _path_under_root(raw: object) -> str:
    text = _text(raw)
    if not text.startswith("/") or text == "/" or any(char in text for char in "{}?# "):
        raise ValueError(raw)
    return text


def _switch(raw: object) -> bool:
    if not isinstance(raw, bool):
        raise ValueError(raw)
    return raw


def _one_of(*allowed: str) -> Callable[[object], str]:
    def read(raw: object) -> str:
        if raw not in allowed:
            raise ValueError(raw)
        return str(raw)

    return read


def _duration_between(low_s: float, high_s: float) -> Callable[[object], float]:
    def read(raw: object) -> float:
        text = _text(raw)
        number = text.rstrip("ms")
        seconds = float(number) * DURATION_UNITS_S.get(text[len(number) :], float("nan"))
        if not low_s <= seconds <= high_s:
            raise ValueError(raw)
        return seconds

    return read


def read_duration(origin: str, raw: str, low_s: float, high_s: float) -> float:
    """Seconds of a duration such as ``500ms`` or ``2m`` that is no setting of its own.

    Raises: ConfigError: it is no duration or lies outside [low_s, high_s].
    """
    try:
        return _duration_between(low_s, high_s)(raw)
    except ValueError as exc:
        raise ConfigError(
            f"{origin}: {raw!r} is not allowed; use a duration from {low_s:g}s to {high_s:g}s"
        ) from exc


def _seconds(raw: object) -> float:
    if isinstance(raw, bool) or not isinstance(raw, int | float | str):
        raise ValueError(raw)
    seconds = float(raw)
    if not 0 <= seconds < float("inf"):
        raise ValueError(raw)
    return seconds


_TABLE = {
    setting.key: setting
    for setting in (
        _Setting(
            "web.listen-address",
            "web_listen_address",
            _text,
            "HOST:PORT, :PORT or [IPV6]:PORT, for example :10411",
            fixed_because="its socket listens already",
        ),
        _Setting(
            "web.telemetry-path",
            "web_telemetry_path",
            _path_under_root,
            "a path such as /metrics",
            fixed_because="its pages are set up",
        ),
        _Setting(
            "web.enable-lifecycle",
            "web_enable_lifecycle",
            _switch,
            "true | false",
            fixed_because="its pages are set up",
        ),
        _Setting(
            "web.config.file",
            "web_config_file",
            _text,
            "the name of a file with TLS and passwords, in exporter-toolkit's format",
            fixed_because="only what stands in the file can change",
        ),
        _Setting("log.level", "log_level", _one_of(*LOG_LEVELS), " | ".join(LOG_LEVELS)),
        _Setting("log.format", "log_format", _one_of(*LOG_FORMATS), " | ".join(LOG_FORMATS)),
        _Setting(
            "nvml.enabled",
            "nvml_enabled",
            _switch,
            "true | false",
            fixed_because="the GPUs that were seen would count as lost",
        ),
        _Setting(
            "nvml.interval",
            "nvml_interval_s",
            _duration_between(0.1, 60.0),
            "a duration from 100ms to 60s, for example 500ms",
        ),
        _Setting("nvml.gpm", "nvml_gpm", _switch, "true | false"),
        _Setting("trace.path", "trace_paths", _texts, "a file, directory or glob, or a list"),
        _Setting("engine.url", "engine_urls", _engine_urls, "URL or NAME=URL, or a list"),
        _Setting(
            "kubernetes.pod-resources",
            "kubernetes_pod_resources",
            _text,
            "the path of the kubelet's socket, for example"
            " /var/lib/kubelet/pod-resources/kubelet.sock",
        ),
        _Setting(
            "conflicts.expected_processes",
            "conflicts_expected_processes",
            _texts,
            "a process's name as in gpu_process_memory_used_bytes, or a list",
        ),
        _Setting(
            "replay",
            "replay",
            _text,
            "a recording's file name",
            fixed_because="histories of a recording and of this machine would mix",
        ),
        _Setting(
            "replay.freeze-at",
            "replay_freeze_at_s",
            _seconds,
            "seconds from the recording's start, 0 or more",
            fixed_because="the clock of a replay stands or runs",
        ),
    )
}

KEYS = tuple(_TABLE)
"""Every key, as it stands in the YAML file (dots are sections) and, with ``--``, as a flag."""
