"""The three wraps around vLLM's classes; they know when to call the probes, not what these read.

vLLM's own function runs first and outside every try: its result and its exceptions pass untouched.
"""

import functools
import logging
from collections.abc import Callable
from types import ModuleType
from typing import Any

from exporter.plugin import attachment
from exporter.plugin.scheduler_tap import SchedulerTap

TAP_ATTRIBUTE = "_vllm_memory_trace"
_MARK = "_vllm_memory_trace_wraps"

_log = logging.getLogger(__name__)

Method = Callable[..., Any]


def wrap(module: ModuleType) -> None:
    """Wrap Scheduler.__init__ and .schedule, or WorkerBase.__init__, where `module` defines them.

    A second call changes nothing. A class without `schedule` gets its constructor wrapped all the
    same, so that the trace can say what is missing.
    """
    for name, parts in _WRAPS.get(module.__name__, {}).items():
        owner = getattr(module, name, None)
        if owner is None:
            _log.warning("the memory trace is off: %s has no %s", module.__name__, name)
            continue
        if _MARK in vars(owner):
            continue
        setattr(owner, _MARK, True)
        for method, make in parts.items():
            original = getattr(owner, method, None)
            if callable(original):
                setattr(owner, method, make(original))


def _scheduler_init(original: Method) -> Method:
    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401, N807
        original(self, *args, **kwargs)
        tap = attachment.attach_scheduler(self)
        if tap is not None:
            setattr(self, TAP_ATTRIBUTE, tap)

    return __init__


def _schedule(original: Method) -> Method:
    @functools.wraps(original)
    def schedule(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        output = original(self, *args, **kwargs)
        tap: SchedulerTap | None = getattr(self, TAP_ATTRIBUTE, None)
        if tap is not None:
            tap.on_step(self, output)
        return output

    return schedule


def _worker_init(original: Method) -> Method:
    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401, N807
        original(self, *args, **kwargs)
        attachment.attach_worker(self)

    return __init__


_WRAPS: dict[str, dict[str, dict[str, Callable[[Method], Method]]]] = {
    "vllm.v1.core.sched.scheduler": {
        "Scheduler": {"__init__": _scheduler_init, "schedule": _schedule}
    },
    "vllm.v1.worker.worker_base": {"WorkerBase": {"__init__": _worker_init}},
}
