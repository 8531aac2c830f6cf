"""Counting adjacency in one block table; plain numbers in, counts out."""

from collections.abc import Sequence
from itertools import islice
from operator import sub
from typing import NamedTuple

LOOP_BELOW = 16  # shorter lists are counted faster by a loop than by the list operations


class PageCounts(NamedTuple):
    """Pages of one table, or of many added up: how many, and how they follow each other.

    `contiguous`: predecessor's id + 1, or the first page; `descending`: predecessor's id − 1.
    """

    pages: int
    contiguous: int
    descending: int


NO_PAGES = PageCounts(0, 0, 0)


def count_steps(ids: Sequence[int], last: int) -> tuple[int, int]:
    """How many of `ids` are their predecessor + 1 and − 1, where `last` stands before the first."""
    if len(ids) < LOOP_BELOW:
        up = down = 0
        for block_id in ids:
            step = block_id - last
            if step == 1:
                up += 1
            elif step == -1:
                down += 1
            last = block_id
        return up, down
    steps = list(map(sub, islice(ids, 1, None), ids))
    steps.append(ids[0] - last)
    return steps.count(1), steps.count(-1)


def count_pages(ids: Sequence[int], null_id: int) -> PageCounts:
    """Count one whole table, null blocks left out.

    Args:
        ids: block ids in the order of the tokens.
        null_id: id of the block that stands for "no page here". The first page is contiguous; a
            page after a later null hole is neither contiguous nor descending.
    """
    holes = ids.count(null_id)
    if holes:
        if ids[:holes].count(null_id) != holes:
            return _count_with_holes(ids, null_id)
        ids = ids[holes:]
    if not ids:
        return NO_PAGES
    up, down = count_steps(ids[1:], ids[0]) if len(ids) > 1 else (0, 0)
    return PageCounts(len(ids), up + 1, down)


def _count_with_holes(ids: Sequence[int], null_id: int) -> PageCounts:
    pages = contiguous = descending = 0
    previous = null_id
    for block_id in ids:
        if block_id != null_id:
            if not pages or (previous != null_id and block_id == previous + 1):
                contiguous += 1
            elif previous != null_id and block_id == previous - 1:
                descending += 1
            pages += 1
        previous = block_id
    return PageCounts(pages, contiguous, descending)
