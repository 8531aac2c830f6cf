"""What a recording of several GPUs shows when the product plays it: ranks, ledgers, conflicts."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from exporter.app import build_unpaced
from exporter.records.ledger import RankOwner
from exporter.records.source import Reading
from exporter.records.view import DeviceView, View
from exporter.settings import Settings

EngineKey = tuple[str, str]


@dataclass
class Sights:
    """Collected over all Views; GPUs by index, engines by (replica, data-parallel rank).

    `ranks`: of each engine, the GPU of each rank. `wrong_sums`: ledgers whose owners do not sum to
    total or are negative. `wrong_pressures`: GPUs whose effective pressure is not the KV usage of
    the fullest engine with a rank there. `unattributed_ratio`: the largest share of total that was
    in no process, among samples whose ledger told everything apart while the list of processes
    stood still. `tenants`: co-tenants as (pid, its primary GPU, growth by GPU).
    `imbalance_bytes`: the largest seen.
    """

    views: int = 0
    gpus: Counter[int] = field(default_factory=Counter)
    ranks: dict[EngineKey, dict[int, int]] = field(default_factory=dict)
    ledgers: int = 0
    wrong_sums: int = 0
    wrong_pressures: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    unattributed_ratio: dict[int, float] = field(default_factory=dict)
    usage_ratio: dict[EngineKey, float] = field(default_factory=dict)
    preemptions: dict[EngineKey, float] = field(default_factory=dict)
    imbalance_bytes: dict[EngineKey, dict[RankOwner, int]] = field(default_factory=dict)
    tenants: dict[int, tuple[int | None, int, dict[int, int]]] = field(default_factory=dict)
    _pids: dict[int, list[int]] = field(default_factory=dict)

    def __call__(self, view: View, _readings: tuple[Reading, ...]) -> None:
        """Take one View; see `Pipeline.subscribe`."""
        self.views += 1
        for device in view.devices:
            self._device(device)
        for rank in view.ranks:
            if rank.device is not None:
                of_engine = self.ranks.setdefault((rank.replica, rank.engine), {})
                of_engine[rank.rank] = rank.device
        for engine in view.engines:
            key = (engine.replica, engine.engine)
            if engine.usage_ratio is not None:
                self.usage_ratio[key] = max(self.usage_ratio.get(key, 0), engine.usage_ratio)
            if engine.counters.preemptions is not None:
                self.preemptions[key] = engine.counters.preemptions
            most = self.imbalance_bytes.setdefault(key, {})
            for owner, difference in (engine.rank_imbalance_bytes or {}).items():
                most[owner] = max(most.get(owner, 0), difference)
        self._pressures(view)
        index = {device.facts.uuid: device.facts.index for device in view.devices}
        for conflict in view.conflicts:
            if conflict.kind == "co_tenant" and conflict.uuid in index:
                growth = {index[uuid]: count for uuid, count in conflict.growth_bytes.items()}
                self.tenants[conflict.id] = (conflict.pid, index[conflict.uuid], growth)

    def _pressures(self, view: View) -> None:
        usage = {(each.replica, each.engine): each.usage_ratio for each in view.engines}
        on_gpu: dict[str, list[float]] = {}
        for rank in view.ranks:
            ratio = usage.get((rank.replica, rank.engine))
            if ratio is not None:
                on_gpu.setdefault(rank.torch.uuid or "", []).append(ratio)
        for device in view.devices:
            fullest = max(on_gpu.get(device.facts.uuid, []), default=None)
            self.wrong_pressures += device.effective_pressure_ratio != fullest

    def _device(self, device: DeviceView) -> None:
        number, sample, ledger = device.facts.index, device.sample, device.ledger
        if sample is None or sample.memory is None or ledger is None:
            return
        self.gpus[number] += 1
        self.ledgers += 1
        owners, total_bytes = ledger.owners_bytes, sample.memory.total_bytes
        self.wrong_sums += sum(owners.values()) != total_bytes or min(owners.values()) < 0
        self.reasons.update(ledger.reasons)
        pids = sorted(process.pid for process in sample.processes or ())
        is_steady = pids == self._pids.get(number)
        self._pids[number] = pids
        if is_steady and not ledger.reasons and "unattributed" in owners:
            ratio = owners["unattributed"] / total_bytes
            self.unattributed_ratio[number] = max(self.unattributed_ratio.get(number, 0), ratio)


def sights_of(recording: Path) -> Sights:
    """Play it unpaced."""
    sights = Sights()
    played = build_unpaced(Settings(), str(recording))
    played.pipeline.subscribe(sights)
    played.start()
    return sights
