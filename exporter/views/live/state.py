"""What the live page shows beside the heatmap: ledgers, KV blocks and conflicts as they are now."""

from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from typing import get_args

from msgspec import Struct

from exporter.records.code import MISSING, code_of
from exporter.records.conflict import Conflict, ConflictKind
from exporter.records.ledger import Owner
from exporter.records.trace import Blocks
from exporter.records.view import DeviceView, EngineView, View
from exporter.views.live.rows import Layout

Value = str | tuple[int | bool | None, ...]
"""Codes in base64, or plain values: one for each row or engine."""

State = dict[str, Value]
"""By key, as docs/live-protocol.md lists them; only keys that something is known for."""

_NOTHING: dict[str, None] = dict.fromkeys(
    (
        "up",
        "memory_total_mib",
        *(f"ledger.{owner}" for owner in get_args(Owner)),
        "engine_up",
        "kv_blocks",
        "kv.active",
        "kv.cached",
        "kv.free",
        "kv.unsplit",
        "contiguity",
        "preemptions",
        "running",
        "waiting",
    )
)

MIB = 1 << 20


class Mark(Struct, frozen=True, kw_only=True):
    """A conflict on the time axis."""

    id: int
    kind: ConflictKind
    unix_ms: int
    ended_unix_ms: int | None
    uuid: str
    pid: int | None
    process: str | None
    used_mib: int | None


def state(view: View, of: Layout) -> State:
    """Everything that is known of the rows and engines."""
    by_uuid = {device.facts.uuid: device for device in view.devices}
    devices = [None if row.uuid is None else by_uuid[row.uuid] for row in of.rows]
    found: State = {}
    _add(found, "up", [device.is_up if device else None for device in devices])
    _add(found, "memory_total_mib", [_total_mib(device) for device in devices])
    for owner in get_args(Owner):
        _add_codes(found, f"ledger.{owner}", [_share(device, owner) for device in devices])
    engines = view.engines
    records = [engine.kv for engine in engines]
    _add(found, "engine_up", [engine.is_up for engine in engines])
    _add(found, "kv_blocks", [kv.blocks.usable if kv and kv.blocks else None for kv in records])
    _add(found, "kv.active", _of_blocks(engines, lambda blocks: blocks.active))
    _add(found, "kv.cached", _of_blocks(engines, lambda blocks: blocks.cached))
    _add(found, "kv.free", _of_blocks(engines, lambda blocks: blocks.free))
    _add(found, "kv.unsplit", _of_blocks(engines, _unsplit))
    _add_codes(found, "contiguity", [engine.contiguity_ratio for engine in engines])
    _add(found, "preemptions", [_whole(engine.counters.preemptions) for engine in engines])
    _add(found, "running", [kv.running if kv else None for kv in records])
    _add(found, "waiting", [kv.waiting if kv else None for kv in records])
    return found


def complete(of: State) -> dict[str, Value | None]:
    """The state with None for every key that it lacks."""
    return {**_NOTHING, **of}


def changes(new: State, old: State) -> dict[str, Value | None]:
    """What makes `new` of `old`; None for keys that are gone."""
    changed: dict[str, Value | None] = dict.fromkeys(old.keys() - new.keys())
    changed.update({key: value for key, value in new.items() if old.get(key) != value})
    return changed


def mark(conflict: Conflict) -> Mark:
    """The conflict without what only /api/conflicts tells."""
    names = {row.pid: row.name for row in conflict.processes}
    ended = conflict.ended_unix_ns
    used = conflict.used_bytes
    return Mark(
        id=conflict.id,
        kind=conflict.kind,
        unix_ms=conflict.ts_unix_ns // 1_000_000,
        ended_unix_ms=None if ended is None else ended // 1_000_000,
        uuid=conflict.uuid,
        pid=conflict.pid,
        process=names.get(conflict.pid) if conflict.pid is not None else None,
        used_mib=None if used is None else used // MIB,
    )


def packed(codes: bytes) -> str:
    """Bytes as text for JSON."""
    return b64encode(codes).decode()


def _add(to: State, key: str, values: Sequence[int | bool | None]) -> None:
    if any(value is not None for value in values):
        to[key] = tuple(values)


def _add_codes(to: State, key: str, ratios: Iterable[float | None]) -> None:
    codes = [code_of(ratio) for ratio in ratios]
    if any(code != MISSING for code in codes):
        to[key] = packed(b"".join(code.to_bytes(2, "little") for code in codes))


def _total_mib(device: DeviceView | None) -> int | None:
    if device is None or device.sample is None or device.sample.memory is None:
        return None
    return device.sample.memory.total_bytes // MIB


def _share(device: DeviceView | None, owner: Owner) -> float | None:
    if device is None or device.ledger is None:
        return None
    owned_bytes = device.ledger.owners_bytes.get(owner)
    total_bytes = sum(device.ledger.owners_bytes.values())
    return owned_bytes / total_bytes if owned_bytes is not None and total_bytes else None


def _of_blocks(
    engines: Iterable[EngineView], count: Callable[[Blocks], int | None]
) -> list[int | None]:
    records = (engine.kv.blocks if engine.kv else None for engine in engines)
    return [count(blocks) if blocks and blocks.usable else None for blocks in records]


def _unsplit(blocks: Blocks) -> int | None:
    return blocks.num_free if blocks.cached is None else None


def _whole(count: float | None) -> int | None:
    return None if count is None else round(count)
