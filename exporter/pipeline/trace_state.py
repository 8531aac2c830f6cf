"""All engines and workers between ticks: who wrote which record, and which are still alive."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from exporter.analysis.worker import Worker, WorkerKey
from exporter.history.identities import Identities
from exporter.pipeline.engine_state import EngineState
from exporter.pipeline.rank_state import RankState
from exporter.records.ledger import Owner
from exporter.records.trace import EngineRecord, KvRecord, TorchRecord, TraceRecord
from exporter.records.view import EngineView, RankView, SilentRankView

UUID_PREFIXES = ("GPU-", "MIG-")


class TraceState:
    """Sorts trace records into engines and workers; asked for their views at each tick."""

    def __init__(self) -> None:
        self._identities = Identities()
        self._engines: dict[tuple[str, str], EngineState] = {}
        self._ranks: dict[tuple[str, str, int], RankState] = {}

    def observe(
        self,
        records: tuple[TraceRecord, ...],
        now_s: float,
        now_unix_ns: int,
        mig_uuids: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Take the records of one pass over the trace, in the order of their time.

        A time in the future counts as now: clocks may be set while we run. `mig_uuids`: see
        `MigPlaces.uuids`.
        """
        for record in sorted(records, key=lambda record: record.ts_unix_ns):
            seen_s = now_s - max(0, now_unix_ns - record.ts_unix_ns) / 1e9
            replica = self._identities.replica_of(record, seen_s)
            if replica is None:
                continue
            if isinstance(record, TorchRecord):
                record = _with_uuid_of_nvml(record, mig_uuids)
                self._rank(replica, record).observe(record, seen_s)
            elif isinstance(record, KvRecord):
                self._engine(replica, record.engine).observe_kv(record, seen_s)
            elif isinstance(record, EngineRecord):
                self._engine(replica, record.engine).observe_facts(record, seen_s)

    def refresh(self, now_s: float) -> None:
        """Settle what is still true at `now_s` and forget what has long been silent."""
        for engine in self._engines.values():
            engine.refresh(now_s)
        for rank in self._ranks.values():
            rank.refresh(now_s)
        self._engines = {
            key: engine for key, engine in self._engines.items() if not engine.is_forgotten(now_s)
        }
        self._ranks = {
            key: rank for key, rank in self._ranks.items() if not rank.is_forgotten(now_s)
        }
        self._identities.forget(now_s)

    @property
    def refused(self) -> int:
        """Records left out since start because too many engines and workers are known."""
        return self._identities.refused

    def duplicates(self, now_s: float) -> int:
        """Live processes shown under another name because a live one has theirs."""
        return self._identities.duplicates(now_s)

    def usage_by_uuid(self, now_s: float) -> dict[str, tuple[float, float]]:
        """Per GPU uuid: highest KV usage and highest peak of the engines with memory on it."""
        usage: dict[str, tuple[float, float]] = {}
        for (replica, engine_name, _rank), rank in self._ranks.items():
            engine = self._engines.get((replica, engine_name))
            torch = rank.fresh(now_s)
            if not engine or not torch or not torch.uuid or engine.usage_ratio is None:
                continue
            now, peak = usage.get(torch.uuid, (0.0, 0.0))
            engine_peak = engine.usage_peak_ratio or 0.0
            usage[torch.uuid] = (max(now, engine.usage_ratio), max(peak, engine_peak))
        return usage

    def workers(self, at_s: float) -> tuple[Worker, ...]:
        """Every worker that is remembered, however old its records, as of `at_s`."""
        workers = []
        for (replica, engine_name, _rank), rank in self._ranks.items():
            torch = rank.newest
            if torch is None:
                continue
            engine = self._engines.get((replica, engine_name))
            kv = engine.kv_of_blocks(at_s) if engine else None
            workers.append(
                Worker(
                    replica=replica,
                    engine=engine_name,
                    torch=torch.record,
                    torch_age_intervals=torch.age_intervals(at_s),
                    kv=kv.record if kv else None,
                    kv_age_intervals=kv.age_intervals(at_s) if kv else 0.0,
                    facts=engine.facts if engine else None,
                )
            )
        return tuple(workers)

    def engine_pids(self) -> dict[tuple[str, str], frozenset[int]]:
        """Pids by which the processes of each engine, (replica, engine), know themselves."""
        return {key: engine.own_pids for key, engine in self._engines.items()}

    def engine_views(self, now_s: float) -> tuple[EngineView, ...]:
        """Engines by name."""
        return tuple(self._engines[key].view(now_s) for key in sorted(self._engines))

    def rank_views(
        self,
        now_s: float,
        index_by_uuid: Mapping[str, int],
        parts_bytes: Mapping[WorkerKey, dict[Owner, int]],
    ) -> tuple[RankView, ...]:
        """Workers by name and rank, joined to GPUs on uuid alone.

        Args: parts_bytes: of each worker's process that is told apart.
        """
        views = []
        for key, rank in sorted(self._ranks.items()):
            replica, engine_name, _rank = key
            torch = rank.fresh(now_s)
            if torch is not None:
                index = index_by_uuid.get(torch.uuid or "")
                model_name = self._model_name(replica, engine_name)
                views.append(rank.view(torch, index, model_name, parts_bytes.get(key)))
        return tuple(views)

    def silent_rank_views(
        self, now_s: float, index_by_uuid: Mapping[str, int]
    ) -> tuple[SilentRankView, ...]:
        """Workers that have fallen silent, until they are forgotten."""
        return tuple(
            rank.silent_view(index_by_uuid, self._model_name(replica, engine_name))
            for (replica, engine_name, _rank), rank in sorted(self._ranks.items())
            if rank.is_silent(now_s)
        )

    def _model_name(self, replica: str, engine_name: str) -> str:
        engine = self._engines.get((replica, engine_name))
        return engine.model_name if engine else ""

    def _engine(self, replica: str, engine: str) -> EngineState:
        key = (replica, engine)
        if key not in self._engines:
            self._engines[key] = EngineState(replica, engine)
        return self._engines[key]

    def _rank(self, replica: str, record: TorchRecord) -> RankState:
        key = (replica, record.engine, record.rank)
        if key not in self._ranks:
            self._ranks[key] = RankState(*key)
        return self._ranks[key]


def _with_uuid_of_nvml(record: TorchRecord, mig_uuids: Mapping[str, str]) -> TorchRecord:
    """torch tells a uuid without NVML's prefix in some versions."""
    uuid = record.uuid
    if uuid and not uuid.startswith(UUID_PREFIXES):
        uuid = f"GPU-{uuid}"
    uuid = mig_uuids.get(uuid or "", uuid)
    return record if uuid == record.uuid else msgspec.structs.replace(record, uuid=uuid)
