"""Defaults ← file ← flags; one line per mistake."""

from pathlib import Path

import pytest

from exporter.errors import ConfigError
from exporter.settings import Settings, load, read_duration
from exporter.sources.engine_url import EngineUrl


def test_without_file_and_flags_the_defaults_hold() -> None:
    settings = load(None, {})
    assert settings == Settings()
    assert (settings.web_listen_address, settings.nvml_interval_s) == (":10411", 0.5)


def test_the_file_overlays_defaults_and_flags_overlay_the_file(tmp_path: Path) -> None:
    path = tmp_path / "exporter.yml"
    path.write_text(
        """
nvml: {interval: 100ms, enabled: false}
trace:
  path: [/a, /b]
engine:
  url: blue=http://vllm:8000
conflicts: {expected_processes: [nvidia-smi, "dcgm exporter"]}
web:
  listen-address: 127.0.0.1:9000
log: {level: debug}
"""
    )
    settings = load(str(path), {"nvml.interval": "2s", "log.format": "json"})
    assert settings == Settings(
        nvml_interval_s=2.0,
        nvml_enabled=False,
        trace_paths=("/a", "/b"),
        engine_urls=(EngineUrl("blue", False, "vllm", 8000, "/metrics"),),
        conflicts_expected_processes=("nvidia-smi", "dcgm exporter"),
        web_listen_address="127.0.0.1:9000",
        log_level="debug",
        log_format="json",
    )


def test_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "exporter.yml"
    path.write_text("# nothing set\n")
    assert load(str(path), {}) == Settings()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "nvml: {interval: 5 parsecs}",
            "{path}: nvml.interval: '5 parsecs' is not allowed;"
            " use a duration from 100ms to 60s, for example 500ms",
            id="no-duration",
        ),
        pytest.param(
            "nvml: {interval: 0.5}",
            "{path}: nvml.interval: 0.5 is not allowed;"
            " use a duration from 100ms to 60s, for example 500ms",
            id="no-unit",
        ),
        pytest.param(
            "nvml: {interval: 50ms}",
            "{path}: nvml.interval: '50ms' is not allowed;"
            " use a duration from 100ms to 60s, for example 500ms",
            id="too-often",
        ),
        pytest.param(
            "nvml: {enabled: maybe}",
            "{path}: nvml.enabled: 'maybe' is not allowed; use true | false",
            id="no-switch",
        ),
        pytest.param(
            "log: {level: loud}",
            "{path}: log.level: 'loud' is not allowed; use debug | info | warning | error",
            id="no-level",
        ),
        pytest.param(
            "web: {telemetry-path: metrics}",
            "{path}: web.telemetry-path: 'metrics' is not allowed; use a path such as /metrics",
            id="no-absolute-path",
        ),
        pytest.param(
            "trace: {path: [1]}",
            "{path}: trace.path: [1] is not allowed; use a file, directory or glob, or a list",
            id="no-path",
        ),
        pytest.param(
            "engine: {url: [8000, 'http://vllm:8000', 'ftp://vllm', 'u:secret@vllm:8000?key=1']}",
            "{path}: engine.url: 8000 is not allowed; use http:// or https://, a host, and perhaps"
            " :PORT and /PATH; NAME= may precede\n"
            "{path}: engine.url: 'ftp://vllm' is not allowed; use http:// or https://, a host, and"
            " perhaps :PORT and /PATH; NAME= may precede\n"
            "{path}: engine.url: '***@vllm:8000' is not allowed; use http:// or https://, a host,"
            " and perhaps :PORT and /PATH; NAME= may precede",
            id="no-urls",
        ),
        pytest.param(
            "conflicts: {expected_processes: [python, 2654]}",
            "{path}: conflicts.expected_processes: ['python', 2654] is not allowed; use a process's"
            " name as in gpu_process_memory_used_bytes, or a list",
            id="no-process-name",
        ),
        pytest.param(
            "trace: {path: /a}\nnvm: {interval: 1s}",
            "{path}: nvm.interval: no such setting; allowed: conflicts.expected_processes,"
            " engine.url, kubernetes.pod-resources, log.format, log.level, nvml.enabled,"
            " nvml.gpm, nvml.interval, replay, replay.freeze-at, trace.path, web.config.file,"
            " web.enable-lifecycle, web.listen-address, web.telemetry-path",
            id="unknown-key",
        ),
        pytest.param(
            "- nvml", "{path}: must hold sections such as 'nvml:', not ['nvml']", id="a-list"
        ),
        pytest.param(
            "log:\n  level: [debug",
            "{path}: line 2: not YAML: expected ',' or ']', but got '<stream end>'",
            id="broken-yaml",
        ),
        pytest.param(
            "log:\n  level: 2026-13-45",
            "{path}: not YAML: month must be in 1..12",
            id="a-date-that-is-none",
        ),
        pytest.param(
            "log: {level: \x07}",
            "{path}: not YAML: unacceptable character #x0007: special characters are not allowed in"
            ' "<unicode string>", position 13',
            id="a-control-character",
        ),
        pytest.param(
            "[" * 5000,
            "{path}: not YAML: nested too deeply",
            id="too-deep",
        ),
    ],
)
def test_a_mistake_in_the_file_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "exporter.yml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(str(path), {})
    assert str(caught.value) == message.format(path=path)


def test_every_mistake_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "exporter.yml"
    path.write_text("log: {level: loud}\nnvml: {interval: soon}\n")
    with pytest.raises(ConfigError) as caught:
        load(str(path), {"log.format": "xml"})
    assert [line.split(":")[1].strip() for line in str(caught.value).splitlines()] == [
        "log.level",
        "nvml.interval",
        "'xml' is not allowed; use logfmt | json",
    ]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "missing.yml"
    with pytest.raises(ConfigError, match=f"{path}: cannot be read: No such file or directory"):
        load(str(path), {})


def test_a_file_in_another_encoding_is_named(tmp_path: Path) -> None:
    path = tmp_path / "exporter.yml"
    path.write_bytes(b"log: {level: \xff}")
    with pytest.raises(ConfigError, match="is not UTF-8 at byte 13"):
        load(str(path), {})


def test_freezing_needs_a_recording() -> None:
    with pytest.raises(ConfigError, match=r"--replay\.freeze-at: needs --replay FILE"):
        load(None, {"replay.freeze-at": "3"})


@pytest.mark.parametrize(
    ("raw", "seconds"), [("500ms", 0.5), ("1s", 1.0), ("1.5s", 1.5), ("2m", 120.0)]
)
def test_durations(raw: str, seconds: float) -> None:
    assert read_duration("--for", raw, 0.1, 3600.0) == seconds


@pytest.mark.parametrize("raw", ["", "5", "ms", "1h", "-1s", "nans", "infs", "1 s x", "1mss"])
def test_no_durations(raw: str) -> None:
    with pytest.raises(ConfigError, match=r"--for: .* use a duration from 0\.1s to 3600s"):
        read_duration("--for", raw, 0.1, 3600.0)
