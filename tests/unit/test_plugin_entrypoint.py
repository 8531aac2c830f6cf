"""The entry point in fresh processes: what it loads, when it acts, that it cannot raise."""

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

ENGINE_SOURCE = """
class Scheduler:
    def __init__(self, name):
        self.name = name

    def schedule(self):
        return ["scheduled", self.name]
"""


def run(code: str, path: Path | None = None, **environment: str) -> str:
    """The output of `code` in a fresh interpreter; `path` comes first among its modules."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment, "PYTHONPATH": str(path or "")},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    ).stdout


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """A package named like vLLM with the two modules that the plugin waits for."""
    for name in ("vllm", "vllm/v1", "vllm/v1/core", "vllm/v1/core/sched", "vllm/v1/worker"):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").touch()
    (tmp_path / "vllm/v1/core/sched/scheduler.py").write_text(ENGINE_SOURCE)
    (tmp_path / "vllm/v1/worker/worker_base.py").write_text(
        "class WorkerBase:\n    def __init__(self, rank):\n        self.rank = rank\n"
    )
    return tmp_path


def test_vllm_finds_it() -> None:
    (point,) = entry_points(group="vllm.general_plugins", name="vllm_memory_exporter")
    assert point.value == "exporter.plugin.entrypoint:register"


def test_the_enabled_entry_point_loads_only_the_standard_library() -> None:
    code = (
        "import sys, json; before = set(sys.modules)\n"
        "from exporter.plugin.entrypoint import register\n"
        "register(); register()\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    loaded = json.loads(run(code, VLLM_MEMORY_TRACE_DIR="/nonexistent"))
    ours = {name for name in loaded if name.partition(".")[0] == "exporter"}
    assert ours == {"exporter", "exporter.plugin", "exporter.plugin.entrypoint"}
    foreign = {n.partition(".")[0] for n in loaded} - {"exporter"} - sys.stdlib_module_names
    assert not foreign


def test_it_starts_no_thread_and_opens_no_file(tmp_path: Path) -> None:
    code = (
        "import os, threading\n"
        "from exporter.plugin.entrypoint import register\n"
        "files = os.listdir('/proc/self/fd')\n"
        "register()\n"
        "print(threading.active_count(), files == os.listdir('/proc/self/fd'))"
    )
    assert run(code, VLLM_MEMORY_TRACE_DIR=str(tmp_path)).split() == ["1", "True"]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("value", [None, ""], ids=["unset", "empty"])
def test_without_the_variable_it_leaves_the_import_system_alone(
    monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.delenv("VLLM_MEMORY_TRACE_DIR", raising=False)
    code = (
        "import sys; before = list(sys.meta_path)\n"
        "from exporter.plugin.entrypoint import register\n"
        "register(); print(before == sys.meta_path)"
    )
    if value is not None:
        monkeypatch.setenv("VLLM_MEMORY_TRACE_DIR", value)
    assert run(code).strip() == "True"


REPORT = """
import json, vllm.v1.core.sched.scheduler as s, vllm.v1.worker.worker_base as w
made = s.Scheduler("a")
print(json.dumps([made.schedule(), w.WorkerBase(3).rank,
    hasattr(s.Scheduler.schedule, "__wrapped__"), hasattr(s.Scheduler.__init__, "__wrapped__"),
    hasattr(w.WorkerBase.__init__, "__wrapped__"),
    hasattr(s.Scheduler.schedule.__wrapped__, "__wrapped__"),
    s.__spec__.loader.get_source(s.__name__) is not None]))
"""
WRAPPED = [["scheduled", "a"], 3, True, True, True, False, True]


@pytest.mark.parametrize(
    "code",
    [
        "register()\n" + REPORT,
        "register(); register()\n" + REPORT,
        "import vllm.v1.core.sched.scheduler, vllm.v1.worker.worker_base\nregister()\n" + REPORT,
        "import vllm.v1.core.sched.scheduler\nregister()\n" + REPORT + "register()",
        "register()\nimport importlib.util as u\n"
        "u.find_spec('vllm.v1.core.sched.scheduler')\n" + REPORT,
    ],
    ids=["before the import", "twice", "after the import", "in between", "looked for first"],
)
def test_the_classes_are_wrapped_once_whenever_it_is_called(engine: Path, code: str) -> None:
    out = run(
        "from exporter.plugin.entrypoint import register\n" + code,
        engine,
        VLLM_MEMORY_TRACE_DIR=str(engine / "trace"),
    )
    assert json.loads(out) == WRAPPED


def test_a_forked_child_keeps_the_hook(engine: Path) -> None:
    code = (
        "import os\nfrom exporter.plugin.entrypoint import register\nregister()\n"
        "if os.fork():\n    os.wait()\nelse:\n    register()\n"
        + "".join(f"    {line}\n" for line in REPORT.strip().splitlines())
    )
    out = run(code, engine, VLLM_MEMORY_TRACE_DIR=str(engine / "trace"))
    assert json.loads(out) == WRAPPED


def test_an_engine_without_the_classes_is_left_alone(engine: Path) -> None:
    (engine / "vllm/v1/core/sched/scheduler.py").write_text("Other = 1\n")
    code = (
        "from exporter.plugin.entrypoint import register\nregister()\n"
        "import vllm.v1.core.sched.scheduler as s; print(s.Other)"
    )
    assert run(code, engine, VLLM_MEMORY_TRACE_DIR=str(engine / "trace")).strip() == "1"


def test_a_broken_plugin_does_not_stop_the_import(engine: Path) -> None:
    code = (
        "import sys; sys.modules['exporter.plugin.hooks'] = None\n"
        "from exporter.plugin.entrypoint import register\nregister()\n"
        "from vllm.v1.core.sched.scheduler import Scheduler\nprint(Scheduler('b').schedule()[1])"
    )
    assert run(code, engine, VLLM_MEMORY_TRACE_DIR=str(engine / "trace")).strip() == "b"


def test_an_error_inside_vllms_module_stays_vllms(engine: Path) -> None:
    (engine / "vllm/v1/core/sched/scheduler.py").write_text("raise ValueError('theirs')\n")
    code = (
        "from exporter.plugin.entrypoint import register\nregister()\n"
        "try:\n    import vllm.v1.core.sched.scheduler\nexcept ValueError as exc:\n    print(exc)"
    )
    assert run(code, engine, VLLM_MEMORY_TRACE_DIR=str(engine / "trace")).strip() == "theirs"
