"""Who owns each byte of a GPU, and why some of it could not be told apart."""

from typing import Literal

from msgspec import Struct

Owner = Literal[
    "driver_reserved",
    "free",
    "unattributed",
    "other_processes",
    "weights",
    "kv_active",
    "kv_cached",
    "kv_free",
    "kv_null",
    "kv_unsplit",
    "graph_pool",
    "torch_other",
    "allocator_slack",
    "non_torch",
    "engine_unsplit",
    "used_unsplit",
]
"""Owners of a GPU's memory.

`driver_reserved`, `free`: NVML memory v2. `other_processes`: processes of no known engine.
`unattributed`: used, but in no process. Of a worker's process: `weights`; KV blocks by state, where
`kv_unsplit` are cached and free ones that the engine does not tell apart; `graph_pool`: segments of
CUDA graphs; `torch_other`: further tensors; `allocator_slack`: reserved by torch and given to no
tensor; `non_torch`: CUDA context, NCCL, libraries. `engine_unsplit`: an engine's process whose
parts are not known. `used_unsplit`: used, and not known by whom.
"""

RankOwner = Literal[
    "weights",
    "kv_pool",
    "graph_pool",
    "torch_other",
    "allocator_slack",
    "non_torch",
    "torch_reserved",
    "allocator_gap",
    "other_processes",
    "free",
]
"""What the ranks of one engine are compared by.

Parts of a worker's process are those of `Owner`, but `kv_pool` are its KV blocks whatever their
state: all ranks of an engine have the same states. `torch_reserved`, `allocator_gap` (reserved −
allocated): of its allocator as a whole, also where the driver does not tell processes.
`other_processes`, `free`: of its GPU.
"""

LedgerReason = Literal[
    "asleep",
    "contradictory",
    "memory_contradictory",
    "memory_moved",
    "pid_unknown",
    "pluggable_allocator",
    "process_bytes_unknown",
    "processes_exceed_used",
    "processes_unknown",
    "stale",
    "torch_unknown",
    "unknown_gpu",
]
"""Why a split fell back to a coarser one.

`asleep`, `pluggable_allocator`: torch's reserved does not tell what the process holds.
`contradictory`: parts exceed their whole, or records of one engine do not fit each other.
`memory_contradictory`: used + free + reserved are not total. `memory_moved`: it changed while the
processes were read. `pid_unknown`: which process is the worker's is not known.
`process_bytes_unknown`, `processes_unknown`: the driver does not say. `processes_exceed_used`: it
contradicts itself. `stale`: a record older than twice its interval. `torch_unknown`: reserved or
allocated was not told. `unknown_gpu`: a worker on a GPU that is not listed.
"""


class Ledger(Struct, frozen=True, kw_only=True):
    """Memory of one GPU by owner, in bytes: all parts are ≥ 0 and sum to NVML's total exactly.

    `owners_bytes` holds the owners that are known to exist here; it is empty when memory is unknown
    or contradicts itself. `effective_used_bytes` = used − kv_cached − kv_free − kv_unsplit −
    allocator_slack; None unless at least one engine is on
    the GPU and each of them is fully told apart. `reasons`: why splits fell back, each once.
    """

    owners_bytes: dict[Owner, int]
    effective_used_bytes: int | None
    reasons: tuple[LedgerReason, ...]
