"""How unevenly an engine's ranks hold memory. Knows Views' parts, not where they come from."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from exporter.analysis.fragmentation import allocator_gap_bytes
from exporter.analysis.worker import hiding
from exporter.records.ledger import Ledger, Owner, RankOwner
from exporter.records.trace import EngineRecord, TorchRecord
from exporter.records.view import EngineView, RankView

Figures = dict[RankOwner, int]
"""Bytes of one rank, or how its engine's ranks differ in them."""


def with_rank_imbalance(
    engines: Iterable[EngineView], ranks: Iterable[RankView], ledgers: Mapping[str, Ledger]
) -> tuple[EngineView, ...]:
    """The engines, each with how its ranks differ. Args: ledgers: of GPUs by uuid."""
    by_engine: defaultdict[tuple[str, str], list[RankView]] = defaultdict(list)
    for rank in ranks:
        by_engine[rank.replica, rank.engine].append(rank)
    return tuple(
        replace(
            engine,
            rank_imbalance_bytes=_imbalance(
                engine.facts, by_engine[engine.replica, engine.engine], ledgers
            ),
        )
        for engine in engines
    )


def promised_ranks(facts: EngineRecord | None) -> int:
    """How many ranks an engine has by its own facts; 0 when it does not say."""
    if facts is None:
        return 0
    return (facts.tensor_parallel_size or 0) * (facts.pipeline_parallel_size or 1)


def rank_figures(
    torch: TorchRecord,
    parts_bytes: Mapping[Owner, int] | None,
    facts: EngineRecord | None,
    ledger: Ledger | None,
) -> Figures:
    """What is known of one rank: of its process, its allocator and its GPU.

    Nothing of the allocator where reserved does not tell what torch holds (sleep mode).

    Args: parts_bytes: of its process; None when not told apart. facts: its engine's. ledger: its
        GPU's.
    """
    parts = parts_bytes or {}
    owners = ledger.owners_bytes if ledger else {}
    told: dict[RankOwner, int | None] = {
        "torch_other": parts.get("torch_other"),
        "allocator_slack": parts.get("allocator_slack"),
        "non_torch": parts.get("non_torch"),
        "other_processes": owners.get("other_processes"),
        "free": owners.get("free"),
    }
    if hiding(torch, facts) is None:
        told["weights"] = torch.weights_bytes
        told["kv_pool"] = torch.kv_pool_bytes
        told["graph_pool"] = torch.graph_pool_bytes
        told["torch_reserved"] = torch.reserved_bytes
        told["allocator_gap"] = allocator_gap_bytes(torch)
    return {owner: figure for owner, figure in told.items() if figure is not None}


def _imbalance(
    facts: EngineRecord | None, ranks: Sequence[RankView], ledgers: Mapping[str, Ledger]
) -> Figures | None:
    """Largest − smallest of each figure that all ranks tell; None unless all of them are there."""
    if len(ranks) < max(2, promised_ranks(facts)):
        return None
    figures = [
        rank_figures(rank.torch, rank.parts_bytes, facts, ledgers.get(rank.torch.uuid or ""))
        for rank in ranks
    ]
    common = set(figures[0]).intersection(*figures)
    if len({frozenset(rank.parts_bytes or ()) for rank in ranks}) > 1:
        common -= {"torch_other", "allocator_slack"}  # what is in them depends on the other parts
    return {
        owner: max(of[owner] for of in figures) - min(of[owner] for of in figures)
        for owner in figures[0]
        if owner in common
    }
