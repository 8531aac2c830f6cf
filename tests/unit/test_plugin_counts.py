"""Adjacency, runs and cursors on made-up block tables, worked out by hand."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.plugin.block_probe import GroupTables
from exporter.plugin.block_tables import PageCounts, count_pages, count_steps
from exporter.plugin.engine_shapes import Block
from exporter.plugin.pool_scan import _runs

PLENTY = 10**9


@dataclass(eq=False)
class FakeBlock:
    block_id: int
    ref_cnt: int = 1
    _block_hash: object = None
    next_free_block: Block | None = None


POOL = [FakeBlock(number) for number in range(200)]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([], (0, 0, 0)),
        ([0, 0], (0, 0, 0)),
        ([7], (1, 1, 0)),
        ([7, 8, 9], (3, 3, 0)),
        ([9, 8, 7], (3, 1, 2)),
        ([5, 9, 10, 4, 3], (5, 2, 1)),
        ([0, 0, 7, 8], (2, 2, 0)),
        ([0, 1, 2], (2, 2, 0)),
        ([7, 0, 8], (2, 1, 0)),
        ([7, 0, 8, 9], (3, 2, 0)),
        ([0, 7, 0, 6, 5], (3, 1, 1)),
        ([1, 0, 0], (1, 1, 0)),
        (list(range(10, 60)), (50, 50, 0)),
        (list(range(60, 10, -1)), (50, 1, 49)),
    ],
)
def test_pages_of_one_table(ids: list[int], expected: tuple[int, int, int]) -> None:
    assert count_pages(ids, 0) == PageCounts(*expected)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=60), st.integers(1, 30))
def test_the_quick_count_equals_the_loop(ids: list[int], last: int) -> None:
    pairs = list(zip([last, *ids], ids, strict=False))
    assert count_steps(ids, last) == (
        sum(b - a == 1 for a, b in pairs),
        sum(b - a == -1 for a, b in pairs),
    )


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (b"", (0, 0)),
        (b"\0\0", (0, 0)),
        (b"\1", (1, 1)),
        (b"\1\1\0\1\0\1\1\1", (3, 3)),
        (b"\0\1\1\1\1\0\1", (2, 4)),
    ],
)
def test_runs_of_free_blocks(states: bytes, expected: tuple[int, int]) -> None:
    assert _runs(states) == expected


operations = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from(["append", "free", "replace", "cut", "look"])),
    max_size=60,
)


@given(operations, st.data())
def test_cursors_follow_whatever_happens_to_the_tables(
    moves: list[tuple[int, str]], data: st.DataObject
) -> None:
    """Against counting all anew, with little effort at a time."""
    group = GroupTables("FullAttentionSpec", 16, 0)
    tables: dict[str, list[FakeBlock]] = {}
    blocks = st.lists(st.integers(1, 199).map(POOL.__getitem__), min_size=1, max_size=40)
    for key, move in moves:
        name = f"request-{key}"
        if move == "append":
            tables.setdefault(name, []).extend(data.draw(blocks))
        elif move == "free":
            tables.pop(name, None)
        elif move == "replace":
            tables[name] = data.draw(blocks)
        elif move == "cut" and len(tables.get(name, ())) > 1:
            tables[name].pop()
            tables[name].append(POOL[data.draw(st.integers(1, 199))])
        elif move == "look":
            while not group.follow(tables, 1):
                pass
            counts = [count_pages([b.block_id for b in t], 0) for t in tables.values()]
            assert group.counts == tuple(map(sum, zip(*counts, strict=True))) or not counts
            assert group.tables == len(tables)


def test_little_effort_is_enough_in_the_end() -> None:
    group = GroupTables("FullAttentionSpec", 16, 0)
    tables = {str(n): [POOL[i + 1] for i in range(100)] for n in range(5)}
    answers = [group.follow(tables, 10) for _ in range(20)]
    assert answers.index(True) > 3
    assert answers == sorted(answers)
    assert (group.counts, group.tables) == (PageCounts(500, 500, 0), 5)


def test_the_worst_tables_come_without_a_name() -> None:
    group = GroupTables("MLAAttentionSpec", 16, 0)
    tables = {
        "good": [POOL[1], POOL[2], POOL[3]],
        "backwards": [POOL[9], POOL[8], POOL[7]],
        "scattered": [POOL[20], POOL[30]],
    }
    assert group.follow(tables, PLENTY)
    assert group.worst(2) == [(3, 3, 2), (2, 2, 0)]


def test_tables_of_other_kinds_are_counted_anew_each_time() -> None:
    group = GroupTables("SlidingWindowSpec", 16, 0)
    table = [POOL[3], POOL[4], POOL[5]]
    group.rescan({"a": table})
    assert (group.counts, group.tables) == (PageCounts(3, 3, 0), 1)
    table[0] = POOL[0]
    group.rescan({"a": table, "b": []})
    assert (group.counts, group.tables) == (PageCounts(2, 2, 0), 1)
    assert not group.is_append_only
