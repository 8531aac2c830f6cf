"""Views of several GPUs and engines, for what the live page shows of them."""

from typing import Any

from msgspec.structs import replace

from exporter.records.trace import Blocks
from exporter.records.view import EngineView, RankView, View
from tests.views import engine_view, gpu_uuid, gpu_view, make_view, rank_view

START_S = 100.0


def engine(replica: str, usage_ratio: float | None = 0.25, **changes: Any) -> EngineView:
    """Of 40 usable blocks as many are active as the ratio says, and at most 6 are cached."""
    view = engine_view()
    if view.kv is not None and usage_ratio is not None and 0 <= usage_ratio <= 1:
        free = 40 - round(40 * usage_ratio)
        blocks = Blocks(total=41, num_free=free, cached=min(6, free))
        view = replace(view, kv=replace(view.kv, blocks=blocks))
    return replace(view, replica=replica, usage_ratio=usage_ratio, **changes)


def placed_on(index: int | None, rank: RankView) -> RankView:
    """The worker on that GPU; None: on one that is not listed."""
    uuid = "GPU-not-listed" if index is None else gpu_uuid(index)
    return replace(rank, device=index, torch=replace(rank.torch, uuid=uuid))


def live_view(
    gpus: tuple[int, ...] = (0,),
    placed: dict[str, tuple[int, ...]] | None = None,
    at_s: float = START_S,
    **changes: Any,
) -> View:
    """GPUs by index, and the replicas with the GPUs that their workers are on (none: unknown)."""
    placed = {"blue": (0,)} if placed is None else placed
    ranks = [
        placed_on(index, replace(rank_view(rank), replica=replica))
        for replica, indices in placed.items()
        for rank, index in enumerate(indices)
    ]
    return make_view(
        published_monotonic_s=at_s,
        ts_unix_ns=1_795_960_065_000_000_000 + round((at_s - START_S) * 1e9),
        devices=tuple(gpu_view(index) for index in gpus),
        engines=changes.pop("engines", tuple(engine(replica) for replica in sorted(placed))),
        ranks=tuple(ranks),
        conflicts=changes.pop("conflicts", ()),
        **changes,
    )


__all__ = ["START_S", "engine", "gpu_uuid", "live_view", "placed_on"]
