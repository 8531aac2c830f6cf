"""What could not be seen, and how to make it seen: the limits of every other finding."""

from collections.abc import Iterator

from exporter.analysis.diagnosis.finding import (
    Judged,
    Judgement,
    engine_name,
    moment,
    rank_name,
)
from exporter.analysis.diagnosis.history import DeviceHistory, EngineHistory, History
from exporter.analysis.rank_imbalance import promised_ranks
from exporter.records.ledger import LedgerReason
from exporter.records.source import SourceHealth

LASTING_RATIO = 0.5
"""Share of samples in which a ledger fell back, from which that is a state and no moment."""

_LEDGER_REASONS: dict[LedgerReason, str] = {
    "asleep": "an engine sleeps",
    "pluggable_allocator": "an engine allocates past torch (sleep mode)",
    "contradictory": "an engine's records contradict each other or the driver",
    "memory_contradictory": "the driver's used, free and reserved are not its total",
    "memory_moved": "memory moves while its processes are read",
    "pid_unknown": "which process is the worker's is not known",
    "process_bytes_unknown": "the driver does not tell what processes hold",
    "processes_exceed_used": "the driver's processes hold more than is used",
    "processes_unknown": "the driver does not tell its processes",
    "stale": "an engine's records are too old",
    "torch_unknown": "a worker does not tell what torch holds",
}
_SPLIT = (
    "With a pid that is not known, run the exporter with hostPID or shareProcessNamespace; else see"
    " whether the engine still writes its trace. Asleep engines tell again when they wake."
)

_ADD_PLUGIN = (
    "Install this package beside vLLM and set VLLM_MEMORY_TRACE_DIR for the engine; let"
    " --trace.path name that directory."
)
_ADD_TRACE = f"{_ADD_PLUGIN} Without the plugin, give vLLM's own metrics with --engine.url."


def judged(history: History) -> Iterator[Judgement]:
    """A finding for each thing that was not seen, or the one that all of it was."""
    spots = [
        *(spot for source in history.sources for spot in _of_source(source)),
        *_of_machine(history),
        *(spot for device in history.devices.values() for spot in _of_device(device)),
        *(spot for engine in history.engines.values() for spot in _of_engine(engine, history)),
    ]
    yield from spots
    if not spots:
        counts = f"GPUs: {len(history.devices)}, engines: {len(history.engines)}"
        evidence = f"workers: {len(history.ranks)}; each tells what it should"
        yield Judged(subject="", evidence=(f"{counts}, {evidence}",))


def _spot(subject: str, evidence: str, advice: str) -> Judged:
    return Judged(subject=subject, verdict="watch", evidence=(evidence,), advice=advice)


def _of_source(source: SourceHealth) -> Iterator[Judged]:
    if not source.is_up:
        reasons = ", ".join(sorted(source.errors)) or "nothing was read yet"
        since = (
            f"last read at {moment(round(source.last_success_unix_s * 1e9))}"
            if source.last_success_unix_s is not None
            else "never read"
        )
        yield _spot(
            f"source {source.name}",
            f"down ({reasons}), {since}",
            "See the exporter's log: it names the cause and the fix.",
        )


def _of_machine(history: History) -> Iterator[Judged]:
    if not history.devices:
        yield _spot(
            "",
            "no GPU was seen",
            "Run it where the GPUs are, with the NVIDIA driver's libnvidia-ml.so.1 in reach.",
        )
    if not history.engines:
        yield _spot("", "no engine was seen: neither trace nor metrics of vLLM", _ADD_TRACE)


def _of_device(device: DeviceHistory) -> Iterator[Judged]:
    name = f"cuda:{device.facts.index}"
    if not device.is_up:
        yield _spot(name, "gives no figures at the end", "Look for Xid errors in dmesg.")
    views = device.sampled_views
    if views and device.hidden_process_views >= LASTING_RATIO * views:
        yield _spot(
            name,
            "the driver does not tell its processes or what they hold",
            "Run the exporter with hostPID, or on the host; under WSL the driver never tells.",
        )
        return
    lasting = [
        meaning
        for reason, meaning in _LEDGER_REASONS.items()
        if device.ledger_reasons.get(reason, 0) >= LASTING_RATIO * max(views, 1)
    ]
    if lasting:
        yield _spot(name, f"its memory is not told apart: {'; '.join(lasting)}", _SPLIT)


def _of_engine(engine: EngineHistory, history: History) -> Iterator[Judged]:
    name = engine_name(engine.replica, engine.engine)
    facts, kv = engine.facts, engine.kv
    if not engine.is_up and engine.last_up_unix_ns is not None:
        yield _spot(
            name,
            f"silent since {moment(engine.last_up_unix_ns)}",
            "See whether the engine still runs, and whether its trace directory is full.",
        )
    told = [record.origin for record in (kv, facts) if record is not None]
    is_bare = facts is None and kv is not None and kv.pid is None
    if is_bare or (told and "plugin" not in told):
        yield _spot(
            name,
            "has no plugin: page tables, block states and the allocator are not told",
            _ADD_PLUGIN,
        )
        return
    if facts and facts.status in ("degraded", "unsupported"):
        yield _spot(
            name,
            f"its plugin is {facts.status}: {facts.reason or 'no reason given'}",
            "docs/plugin.md says what each reason leaves out, and for which versions of vLLM.",
        )
    yield from _of_ranks(engine, history)


def _of_ranks(engine: EngineHistory, history: History) -> Iterator[Judged]:
    """Workers that the engine's facts promise and nobody saw; those on GPUs that are not listed."""
    seen = {rank.rank: rank for rank in history.ranks_of(engine)}
    count = promised_ranks(engine.facts)
    missing = [str(number) for number in range(count) if number not in seen]
    if missing or not seen:
        ranks = f"rank {', '.join(missing)}" if missing else "no rank"
        verb = "tells nothing" if missing else "tells"
        yield _spot(
            engine_name(engine.replica, engine.engine),
            f"{ranks} {verb} of its allocator: what it holds has no owner",
            "Let every worker write to the same VLLM_MEMORY_TRACE_DIR; workers on other hosts need"
            " an exporter there.",
        )
    for rank in seen.values():
        is_silent = engine.is_up and rank.last_unix_ns < history.last_unix_ns
        if is_silent and (not count or rank.rank < count):  # of an engine restarted with fewer
            yield _spot(
                rank_name(rank.replica, rank.engine, rank.rank),
                f"silent since {moment(rank.last_unix_ns)}, while its engine tells of itself",
                "See whether this worker hangs (its GPU's utilization, py-spy), and whether its"
                " trace directory is full.",
            )
        if history.devices and rank.device is None:
            yield _spot(
                rank_name(rank.replica, rank.engine, rank.rank),
                f"its GPU {rank.torch.uuid or '(not told)'} is not listed by the driver",
                "Give the exporter all GPUs of the engine (NVIDIA_VISIBLE_DEVICES).",
            )
