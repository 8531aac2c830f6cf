"""Views of a healthy machine for diagnoses, changed field by field, and what is found in them."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from exporter.analysis.diagnosis import Diagnosis, History, advanced, diagnose
from exporter.analysis.diagnosis.finding import Cause, Finding
from exporter.records.view import DeviceView, EngineView, RankView, View
from tests.views import TS_UNIX_NS, engine_view, gpu_view, make_view, rank_view

S = 1_000_000_000


def changed(record: Any, **changes: Any) -> Any:
    """The record with fields replaced; ``a__b=x`` replaces field b of its field a."""
    for path, value in changes.items():
        name, _, rest = path.partition("__")
        inner = getattr(record, name)
        is_nested = bool(rest) and isinstance(inner, Struct)
        record = replace(record, **{name: changed(inner, **{rest: value}) if is_nested else value})
    return record


def gpu(**changes: Any) -> DeviceView:
    healthy = {
        "sample__event_reasons": {"sw_power_cap": True, "hw_slowdown": False},
        "ledger__reasons": (),
        "conflicts": {"co_tenant": 0, "pressure": 0, "margin": 0},
    }
    device: DeviceView = changed(gpu_view(), **{**healthy, **changes})
    return device


def engine(**changes: Any) -> EngineView:
    """Plugin active, one rank, no KV connector; 40,000 tokens asked for and 9,000 found so far."""
    healthy = {
        "facts__status": "active",
        "facts__reason": None,
        "facts__tensor_parallel_size": 1,
        "counters__query_tokens": 40_000.0,
        "counters__hit_tokens": 9_000.0,
    }
    view: EngineView = changed(engine_view(), **{**healthy, **changes})
    return view


def rank(**changes: Any) -> RankView:
    view: RankView = changed(rank_view(), **{"alloc_retries": 0.0, "ooms": 0.0, **changes})
    return view


def at(seconds: float, **changes: Any) -> View:
    """The healthy machine some seconds after `TS_UNIX_NS`; `changes` replace fields of the View."""
    healthy = {"devices": (gpu(),), "engines": (engine(),), "ranks": (rank(),), "conflicts": ()}
    ts_unix_ns = TS_UNIX_NS + round(seconds * S)
    return make_view(**{"replay": None, "ts_unix_ns": ts_unix_ns, **healthy, **changes})


def history_of(views: Sequence[View]) -> History:
    history = None
    for view in views:
        history = advanced(history, view)
    assert history is not None
    return history


def diagnosis_of(*views: View) -> Diagnosis:
    """What is found in these Views, in their order."""
    return diagnose(history_of(views))


def findings(diagnosis: Diagnosis, cause: Cause) -> list[Finding]:
    return [finding for finding in diagnosis.findings if finding.cause == cause]


def found(diagnosis: Diagnosis, cause: Cause) -> Finding:
    """The one finding of that cause."""
    (finding,) = findings(diagnosis, cause)
    return finding


def wrong(diagnosis: Diagnosis) -> list[Cause]:
    """Causes of everything that is not ok, in order."""
    return [finding.cause for finding in diagnosis.findings if finding.verdict != "ok"]
