"""Plugins of several versions write into one directory, which one exporter follows."""

import json
import re
import time
from pathlib import Path

from tests.daemon import running

LINES = "vllm_memory_exporter_trace_lines_total"


def write_trace(directory: Path, replica: str, plugin_version: str, **changes: object) -> None:
    """Facts and a state of 42 running requests, told just now."""
    identity = {
        "v": 1,
        "ts_unix_ns": time.time_ns(),
        "pid": 7,
        "replica": replica,
        "engine": "0",
        "interval_s": 60.0,
    }
    lines = [
        {"type": "engine", **identity, "plugin_version": plugin_version, **changes},
        {"type": "kv", **identity, "running": 42, **changes},
    ]
    path = directory / f"{replica}.engine.dp0.r0.7-1.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_each_is_read_as_far_as_it_can_be_and_the_other_schema_is_said_and_counted(
    tmp_path: Path,
) -> None:
    write_trace(tmp_path, "older", "0.0.9")
    write_trace(tmp_path, "newer", "0.9.0", added={"of": "tomorrow"}, status="of tomorrow")
    write_trace(tmp_path, "newest", "2.0.0", v=2)
    with running("serve", "--no-nvml", "--trace.path", str(tmp_path)) as daemon:
        samples = daemon.wait_for(
            lambda samples: samples.get(f'{LINES}{{outcome="unknown_version"}}') == 2
        )
        message = daemon.wait_for_log(re.compile(r"newest\.engine\S+ has faulty lines: .*"))
    assert "update the older one, exporter or plugin" in message.group()
    running_requests = {
        replica: samples.get(
            f'vllm_engine_requests{{engine="0",model_name="",replica="{replica}",state="running"}}'
        )
        for replica in ("older", "newer", "newest")
    }
    assert running_requests == {"older": 42, "newer": 42, "newest": None}
    plugins = [
        re.findall(r'(plugin_version|replica|status)="([^"]*)"', series)
        for series in samples
        if series.startswith("vllm_plugin_info")
    ]
    assert [dict(plugin) for plugin in sorted(plugins)] == [
        {"plugin_version": "0.0.9", "replica": "older", "status": ""},
        {"plugin_version": "0.9.0", "replica": "newer", "status": ""},
    ]
    assert samples[f'{LINES}{{outcome="accepted"}}'] == 3
    assert samples[f'{LINES}{{outcome="partial"}}'] == 1
    void = 'vllm_memory_exporter_source_errors_total{reason="invalid_status",source="trace"}'
    assert samples[void] == 1
