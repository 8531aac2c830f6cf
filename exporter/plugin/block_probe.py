"""The page tables of all requests of one scheduler, read from vLLM's live block lists.

A cursor per table remembers what was counted, so that a sample costs O(tables + new blocks). It
keeps no request id beyond its own dictionary and hands none on.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from exporter.plugin.block_tables import NO_PAGES, PageCounts, count_pages, count_steps
from exporter.plugin.engine_shapes import Block, Scheduler
from exporter.records.trace import KvGroup, PageTable, Slots

APPEND_ONLY_KINDS = frozenset({"FullAttentionSpec", "MLAAttentionSpec"})
"""vLLM only ever appends to these groups' tables; all others get null blocks put in place."""

FEW_BLOCKS = 16

_block_id = attrgetter("block_id")
_computed_tokens = attrgetter("num_computed_tokens")


class _Cursor:
    """What has been counted of one append-only table: `pages` pages, `last` being the last one."""

    __slots__ = ("blocks", "down", "last", "last_id", "pages", "up")

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.blocks = blocks
        self.pages = self.up = self.down = 0
        self.last: Block | None = None
        self.last_id = blocks[0].block_id - 1  # so the first page counts as contiguous

    def advance(self, pages: int) -> PageCounts:
        """Count that many pages more (at least one); returns what they add."""
        new = self.blocks[self.pages : self.pages + pages]
        up, down = count_steps(list(map(_block_id, new)), self.last_id)
        self.last = new[-1]
        self.last_id = new[-1].block_id
        self.pages += len(new)
        self.up += up
        self.down += down
        return PageCounts(len(new), up, down)


class GroupTables:
    """The tables of one KV cache group.

    `kind`: vLLM's spec name; `block_size`: tokens per block, context parallelism included.
    `counts` are pages over all tables and `tables` those with a page, as of the last update.
    """

    def __init__(self, kind: str, block_size: int, null_id: int) -> None:
        self.kind = kind
        self.block_size = block_size
        self.is_append_only = kind in APPEND_ONLY_KINDS
        self.counts = NO_PAGES
        self.tables = 0
        self._null_id = null_id
        self._cursors: dict[str, _Cursor] = {}

    def rescan(self, tables: Mapping[str, Sequence[Block]]) -> None:
        """Count all tables anew: for groups in which vLLM replaces blocks in place."""
        counted = [
            counts
            for blocks in list(tables.values())
            if (counts := count_pages(list(map(_block_id, blocks)), self._null_id)).pages
        ]
        self.tables = len(counted)
        self.counts = _total(counted)

    def worst(self, number: int) -> list[tuple[int, int, int]]:
        """The `number` tables with most extents: (pages, extents, descending), worst first."""
        rows = ((c.pages, c.pages - c.up + 1, c.down) for c in self._cursors.values())
        return heapq.nlargest(number, rows, key=lambda row: row[1])

    def holders(self) -> Iterable[str]:
        """Ids of the requests that hold a page; they never leave the plugin."""
        return self._cursors

    def forget(self) -> None:
        """Drop all cursors: the next update counts everything anew."""
        self._cursors.clear()
        self.counts, self.tables = NO_PAGES, 0

    def follow(self, tables: Mapping[str, Sequence[Block]], effort: int) -> bool:
        """Count what is new in append-only tables.

        Args: effort: how much to do at most, in new blocks of known tables; the blocks of a new
            table come cheaper, at a quarter each.
        Returns: whether all is counted; if not, the next call goes on.
        """
        cursors = self._cursors
        pages, contiguous, descending = self.counts
        empty = behind = 0
        items = list(tables.items())  # at once: while idle, another thread counts than schedules
        for key, blocks in items:
            cursor = cursors.get(key)
            length = len(blocks)
            if cursor is not None:
                seen = cursor.pages
                if cursor.blocks is blocks and length >= seen and blocks[seen - 1] is cursor.last:
                    if length == seen:
                        continue
                else:  # preempted and back, or rolled back: count it anew
                    del cursors[key]
                    pages -= seen
                    contiguous -= cursor.up
                    descending -= cursor.down
                    cursor = None
            if not length:
                empty += 1
                continue
            if effort <= 0:
                behind += 1
                continue
            if cursor is None:
                cursors[key] = cursor = _Cursor(blocks)
            elif length - seen < FEW_BLOCKS:  # the usual case, worth its own loop
                last, up, down = cursor.last_id, 0, 0
                for block in blocks[seen:length]:
                    block_id = block.block_id
                    if block_id == last + 1:
                        up += 1
                    elif block_id == last - 1:
                        down += 1
                    last = block_id
                cursor.last, cursor.last_id, cursor.pages = block, last, length
                effort -= length - seen
                pages += length - seen
                if up:
                    cursor.up += up
                    contiguous += up
                if down:
                    cursor.down += down
                    descending += down
                continue
            added = cursor.advance(4 * effort)
            effort -= min(added.pages, 8 + added.pages // 4)
            behind += cursor.pages < length
            pages += added.pages
            contiguous += added.contiguous
            descending += added.descending
        if len(cursors) > len(items) - empty - behind:
            for key in cursors.keys() - tables.keys():
                cursor = cursors.pop(key)
                pages -= cursor.pages
                contiguous -= cursor.up
                descending -= cursor.down
        self.counts = PageCounts(pages, contiguous, descending)
        self.tables = len(cursors)
        return not behind


class BlockProbe:
    """Page tables, token slots and per-group counts of one scheduler.

    Source: `kv_cache_manager.coordinator.single_type_managers[g].req_to_blocks`, the live lists;
    where that is missing, `kv_cache_manager.get_blocks(id).blocks` of the running requests.
    """

    def __init__(self, scheduler: Scheduler, groups: Sequence[GroupTables]) -> None:
        self.groups = groups
        manager = scheduler.kv_cache_manager
        try:
            managers = manager.coordinator.single_type_managers
            self._live = [m.req_to_blocks for m in managers]
        except AttributeError:
            self._live = []
        if len(self._live) != len(groups) or not all(isinstance(t, dict) for t in self._live):
            self._live = []
            _ = manager.get_blocks  # neither: the caller reports what is missing

    @property
    def block_size(self) -> int:
        """Tokens per block of the first full-attention group, else of the first group."""
        return next((g for g in self.groups if g.is_append_only), self.groups[0]).block_size

    def update(self, scheduler: Scheduler, effort: int) -> bool:
        """Count what is new; O(tables + new blocks), and at most about `effort` new blocks.

        Returns: whether the counts are complete; if not, the next call goes on.
        Raises: what a changed layout raises; the next call then counts everything anew.
        """
        try:
            pairs = list(zip(self.groups, self._tables(scheduler), strict=True))
            behind = [g for g, t in pairs if g.is_append_only and not g.follow(t, effort)]
            if behind:
                return False
            for group, tables in pairs:
                if not group.is_append_only:
                    group.rescan(tables)
        except BaseException:
            for group in self.groups:
                group.forget()
            raise
        return True

    def counts(self) -> tuple[PageTable, tuple[KvGroup, ...] | None]:
        """Pages over all groups, and by group where there are several, as of the last update."""
        groups = self.groups
        page_table = _page_table(_total([g.counts for g in groups]), sum(g.tables for g in groups))
        if len(groups) < 2:
            return page_table, None
        return page_table, tuple(
            KvGroup(index, group.kind, group.block_size, _page_table(group.counts, group.tables))
            for index, group in enumerate(groups)
        )

    def slots(self, scheduler: Scheduler) -> Slots | None:
        """Token slots of the full-attention groups; None when there is no such group.

        Used = `Request.num_computed_tokens` (with async scheduling it counts tokens in flight),
        at most what is allocated.
        """
        full = [group for group in self.groups if group.is_append_only]
        if not full:
            return None
        allocated = sum(group.counts.pages * group.block_size for group in full)
        holders = full[0].holders()
        requests = scheduler.requests
        used = sum(map(_computed_tokens, filter(None, map(requests.get, holders))))
        return Slots(allocated, min(used * len(full), allocated))

    def worst(self, number: int) -> list[tuple[int, int, int]]:
        """The full-attention tables with most extents: (pages, extents, descending pages)."""
        rows = [row for group in self.groups for row in group.worst(number)]
        return heapq.nlargest(number, rows, key=lambda row: row[1])

    def _tables(self, scheduler: Scheduler) -> Sequence[Mapping[str, Sequence[Block]]]:
        if self._live:
            return self._live
        read = scheduler.kv_cache_manager.get_blocks
        rows = [(r.request_id, read(r.request_id).blocks) for r in scheduler.running]
        return [{key: row[g] for key, row in rows} for g in range(len(self.groups))]


def _total(counts: Sequence[PageCounts]) -> PageCounts:
    if len(counts) == 1:
        return counts[0]
    return PageCounts(
        sum(c.pages for c in counts),
        sum(c.contiguous for c in counts),
        sum(c.descending for c in counts),
    )


def _page_table(counts: PageCounts, tables: int) -> PageTable:
    return PageTable(counts.pages, counts.contiguous, counts.descending, tables)
