"""vLLM's way in: wait until vLLM imports its scheduler and worker base, then have them wrapped.

Standard library only, and nothing of vLLM or torch: vLLM calls this in every one of its processes,
also in those that never schedule. It starts no thread and opens no file.
"""

import logging
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

TRACE_DIR_VARIABLE = "VLLM_MEMORY_TRACE_DIR"
HOOKED_MODULES = ("vllm.v1.core.sched.scheduler", "vllm.v1.worker.worker_base")

_log = logging.getLogger(__name__)


def register() -> None:
    """Entry point of the group `vllm.general_plugins`; does nothing without VLLM_MEMORY_TRACE_DIR.

    May be called any number of times, in any process, before or after a fork. Never raises: vLLM
    calls it unguarded.
    """
    try:
        if os.environ.get(TRACE_DIR_VARIABLE):
            _watch_imports()
    except Exception:
        _log.warning("the memory trace is off: its import hook failed", exc_info=True)


def _watch_imports() -> None:
    for name in HOOKED_MODULES:
        if name in sys.modules:
            _wrap(sys.modules[name])
    if not any(isinstance(finder, _ImportWatch) for finder in sys.meta_path):
        sys.meta_path.insert(0, _ImportWatch())


class _ImportWatch:
    """A meta-path finder that finds nothing itself: it adds a step after two modules have run."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the other finders' spec with the extra step, or None to let the import go on."""
        if name not in HOOKED_MODULES:
            return None
        try:
            for finder in sys.meta_path:
                spec = None if finder is self else finder.find_spec(name, path, target)
                if spec is not None:
                    _wrap_after_execution(spec)
                    return spec
        except Exception:
            _log.warning("the memory trace cannot watch the import of %s", name, exc_info=True)
        return None


def _wrap_after_execution(spec: ModuleSpec) -> None:
    """Shadow `exec_module` on this one loader object; `__loader__` stays what it was."""
    loader = spec.loader
    assert loader is not None  # noqa: S101 (namespace packages have none; a module has one)
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        if module.__name__ in HOOKED_MODULES:  # a zip's modules share one loader
            _wrap(module)

    loader.exec_module = exec_module  # type: ignore[method-assign]


def _wrap(module: ModuleType) -> None:
    try:
        from exporter.plugin import hooks  # not at the top: it needs msgspec

        hooks.wrap(module)
    except Exception:
        _log.warning("the memory trace could not wrap %s", module.__name__, exc_info=True)
