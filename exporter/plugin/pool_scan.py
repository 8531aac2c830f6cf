"""The block pool: what is free now, and by slices which blocks are cached, shared, adjacent.

A whole pool is never read in one step: `scan_slice` reads some hundred blocks, and a lap's figures
stand when its last slice is done. They are as old as the lap.
"""

from collections.abc import Sequence
from typing import NamedTuple

from exporter.plugin.engine_shapes import Block, BlockPool
from exporter.records.trace import Blocks, FreeRuns

SLICE_BLOCKS = 512
QUEUE_HEAD_BLOCKS = 256
LAP_TOLERANCE = 0.05

_EMPTY, _CACHED, _ACTIVE, _SHARED = range(4)
_IS_FREE = bytes((1, 1, 0, 0)).ljust(256, b"\0")


class Lap(NamedTuple):
    """One pass over the pool; `key` (step count, free blocks at its start) tells of later moves."""

    key: tuple[int, int]
    free: int
    cached: int
    shared: int
    free_runs: FreeRuns


class PoolScan:
    """Reads one BlockPool. Source: `block_pool.blocks[i].ref_cnt` and `._block_hash`, and the
    linked list behind `free_block_queue.fake_free_list_head`.

    `queue`, `least_free`: vLLM's free queue, and the fewest free blocks since `blocks()`; whoever
    steps keeps the latter down.
    """

    __slots__ = (
        "_head",
        "_key",
        "_pool",
        "_states",
        "_usable",
        "lap",
        "least_free",
        "null_id",
        "queue",
    )

    def __init__(self, pool: BlockPool) -> None:
        self.lap: Lap | None = None
        self.null_id = pool.null_block.block_id
        self._pool = pool
        self._states = bytearray()
        self._key = (0, 0)
        self._head: tuple[int, int] | None = None
        self._usable = pool.num_gpu_blocks - 1
        self.queue = pool.free_block_queue
        self.least_free = self.num_free()
        first = pool.blocks[0]
        _ = (first.ref_cnt, first._block_hash, pool.free_block_queue.fake_free_list_head)

    def num_free(self) -> int:
        """Blocks in vLLM's free queue now, cached ones included. Raises: TypeError: no number."""
        free = self.queue.num_free_blocks
        if not isinstance(free, int):
            raise TypeError(f"num_free_blocks is {free!r}")
        return free

    def blocks(self, has_peak: bool = True) -> Blocks:
        """The pool now; with `has_peak` the highest number of active blocks since the last call.

        `cached` and `shared` come from the last lap, and are left out when the pool has moved on:
        see `fitting_lap`.
        """
        free = self.num_free()
        active = self._usable - free
        peak = max(active, self._usable - self.least_free)
        self.least_free = free
        lap = self.fitting_lap(free)
        return Blocks(
            total=self._usable + 1,
            num_free=free,
            cached=lap.cached if lap is not None and lap.cached <= free else None,
            shared=lap.shared if lap is not None and lap.shared <= active else None,
            active_peak=peak if has_peak else None,
        )

    def fitting_lap(self, free: int) -> Lap | None:
        """The last lap, unless `free` differs from its own by over 5 % of the pool."""
        lap = self.lap
        if lap is None or abs(lap.free - free) > LAP_TOLERANCE * self._usable:
            return None
        return lap

    def free_runs(self, free: int) -> FreeRuns | None:
        """How the free blocks lay in the last lap; None when it no longer fits `free`."""
        lap = self.fitting_lap(free)
        if lap is None or (lap.free_runs.longest_run_blocks or 0) > free:
            return None
        return lap.free_runs

    @property
    def slices(self) -> int:
        """Calls of scan_slice in a lap."""
        return -(-(self._usable + 1) // SLICE_BLOCKS) + 2

    def scan_slice(self, step: int) -> bool:
        """Do the next part of a lap; True when it was the last.

        Parts: SLICE_BLOCKS blocks each, then the head of the free queue, then the figures of the
        lap. `step` is the scheduler's step count, kept as the lap's start.
        """
        states = self._states
        begin = len(states)
        if begin <= self._usable:
            if not begin:
                self._key = (step, self.num_free())
                self._head = None
            states += _states(self._pool.blocks[begin : begin + SLICE_BLOCKS])
            return False
        if self._head is None:
            self._head = self._queue_head()
            return False
        states[self.null_id] = _ACTIVE  # never free: nobody can be given it
        cached = states.count(_CACHED)
        self.lap = Lap(
            self._key,
            free=states.count(_EMPTY) + cached,
            cached=cached,
            shared=states.count(_SHARED),
            free_runs=FreeRuns(*_runs(states.translate(_IS_FREE)), *self._head),
        )
        self._states = bytearray()
        return True

    def is_current(self, step: int) -> bool:
        """Whether nothing has moved since the last lap began, as far as the counts tell."""
        return self.lap is not None and self.lap.key == (step, self.num_free())

    def restart_lap(self) -> None:
        """Forget the slices of a lap that has not ended."""
        self._states = bytearray()

    def _queue_head(self) -> tuple[int, int]:
        """(blocks walked, those that follow their predecessor + 1) at the head of the queue."""
        walked = contiguous = 0
        previous = None
        block = self.queue.fake_free_list_head.next_free_block
        while block is not None and block.block_id >= 0 and walked < QUEUE_HEAD_BLOCKS:
            block_id = block.block_id
            if previous is None or block_id == previous + 1:
                contiguous += 1
            previous = block_id
            walked += 1
            block = block.next_free_block
        return walked, contiguous


def _states(blocks: Sequence[Block]) -> bytes:
    return bytes(
        [
            (_ACTIVE if b.ref_cnt == 1 else _SHARED) if b.ref_cnt else b._block_hash is not None
            for b in blocks
        ]
    )


def _runs(is_free: bytes | bytearray) -> tuple[int, int]:
    """(number of runs of 1, length of the longest) in a string of the bytes 0 and 1."""
    runs = is_free.count(b"\0\1") + is_free.startswith(b"\1")
    longest, end = 0, 0
    while (start := is_free.find(b"\1" * (longest + 1), end)) >= 0:
        end = is_free.find(b"\0", start)
        if end < 0:
            end = len(is_free)
        longest = end - start
    return runs, longest
