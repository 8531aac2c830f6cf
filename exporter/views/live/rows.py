"""Which rows a View has on the live page, and the figures of each."""

from collections.abc import Iterable

from msgspec import Struct

from exporter.records.view import View

METRICS = ("effective_pressure", "device_pressure", "kv_usage", "allocator", "memory_controller")
MAX_ROWS = 1024


class Row(Struct, frozen=True, kw_only=True):
    """A GPU, or an engine whose GPU is not known: then `uuid` is None.

    `engines` are indices into `Layout.engines`.
    """

    uuid: str | None
    device: str | None
    name: str | None
    engines: tuple[int, ...]


class Engine(Struct, frozen=True, kw_only=True):
    """Whose figures they are."""

    replica: str
    model_name: str
    engine: str

    @property
    def identity(self) -> tuple[str, str]:
        """What stays the same however its model is named."""
        return self.replica, self.engine


class Layout(Struct, frozen=True, kw_only=True):
    """Rows from top to bottom, and what they belong to; does not change with the figures."""

    rows: tuple[Row, ...]
    engines: tuple[Engine, ...]
    rows_left_out: int


def layout(view: View, before: Layout | None = None) -> Layout:
    """GPUs grouped by their first engine, GPUs without one, engines without a GPU.

    An engine whose workers have fallen silent stays on the GPUs that it had `before`.
    """
    engines_of = _engines_by_uuid(view, before)
    gpus = [
        Row(
            uuid=device.facts.uuid,
            device=f"cuda:{device.facts.index}",
            name=device.facts.name,
            engines=engines_of.get(device.facts.uuid, ()),
        )
        for device in sorted(view.devices, key=lambda device: device.facts.index)
    ]
    gpus.sort(key=lambda row: row.engines[0] if row.engines else len(view.engines))
    placed = {index for row in gpus for index in row.engines}
    bare = [
        Row(uuid=None, device=None, name=None, engines=(index,))
        for index in range(len(view.engines))
        if index not in placed
    ]
    rows = (*gpus, *bare)
    return Layout(
        rows=rows[:MAX_ROWS],
        engines=tuple(
            Engine(replica=engine.replica, model_name=engine.model_name, engine=engine.engine)
            for engine in view.engines
        ),
        rows_left_out=len(rows[MAX_ROWS:]),
    )


def keys(of: Layout) -> list[str]:
    """A name for each row that stays the same while the layout changes around it."""
    return [
        "\0".join(of.engines[row.engines[0]].identity) if row.uuid is None else row.uuid
        for row in of.rows
    ]


def ratios(view: View, of: Layout) -> list[tuple[float | None, ...]]:
    """The figures of each row in the order of METRICS; None where there is none."""
    devices = {device.facts.uuid: device for device in view.devices}
    gpu_of = _gpu_by_uuid(view)
    gaps: dict[str | None, list[float | None]] = {}
    for rank in view.ranks:
        gpu = gpu_of.get(rank.torch.uuid or "")
        gaps.setdefault(gpu, []).append(rank.fragmentation_ratio)
    figures: list[tuple[float | None, ...]] = []
    for row in of.rows:
        usage = highest(view.engines[index].usage_ratio for index in row.engines)
        if row.uuid is None:
            figures.append((None, None, usage, None, None))
            continue
        device = devices[row.uuid]
        figures.append(
            (
                device.effective_pressure_ratio,
                device.pressure_ratio,
                usage,
                highest(gaps.get(row.uuid, ())),
                device.sample.memory_controller_utilization_ratio if device.sample else None,
            )
        )
    return figures


def highest(ratios: Iterable[float | None]) -> float | None:
    """The highest that is known; None when none is."""
    return max((ratio for ratio in ratios if ratio is not None), default=None)


def _engines_by_uuid(view: View, before: Layout | None) -> dict[str, tuple[int, ...]]:
    index_of = {(engine.replica, engine.engine): at for at, engine in enumerate(view.engines)}
    gpu_of = _gpu_by_uuid(view)
    pairs = {
        (index_of[rank.replica, rank.engine], gpu_of[rank.torch.uuid])
        for rank in view.ranks
        if rank.torch.uuid in gpu_of and (rank.replica, rank.engine) in index_of
    }
    told = {index for index, _uuid in pairs}
    if before is not None:
        pairs |= {
            (index_of[key], row.uuid)
            for row in before.rows
            for key in (before.engines[at].identity for at in row.engines)
            if row.uuid is not None and key in index_of and index_of[key] not in told
        }
    found: dict[str, tuple[int, ...]] = {}
    for index, uuid in sorted(pairs):
        found[uuid] = (*found.get(uuid, ()), index)
    return found


def _gpu_by_uuid(view: View) -> dict[str, str]:
    """UUID of each GPU and of each MIG device → that of the GPU."""
    return {
        uuid: device.facts.uuid
        for device in view.devices
        for uuid in (device.facts.uuid, *(device.mig or ()))
    }
