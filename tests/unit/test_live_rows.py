"""Which rows the live page has, in which order, and their figures."""

from msgspec.structs import replace

from exporter.views.live import rows
from exporter.views.live.rows import MAX_ROWS, Layout
from tests.live_views import engine, gpu_uuid, live_view, placed_on
from tests.views import bare_view, gpu_view, make_view, mig_uuid, rank_view


def seen(layout: Layout) -> list[tuple[str | None, list[str]]]:
    """Each row's device and the replicas on it."""
    return [
        (row.device, [layout.engines[index].replica for index in row.engines])
        for row in layout.rows
    ]


def test_gpus_stand_together_by_engine_and_those_without_one_come_last() -> None:
    view = live_view(gpus=(3, 0, 1, 2), placed={"blue": (1, 3), "amber": (2,)})
    assert seen(rows.layout(view)) == [
        ("cuda:2", ["amber"]),
        ("cuda:1", ["blue"]),
        ("cuda:3", ["blue"]),
        ("cuda:0", []),
    ]


def test_an_engine_whose_gpu_nobody_tells_has_a_row_of_its_own() -> None:
    layout = rows.layout(live_view(gpus=(0,), placed={"amber": (), "blue": (0,)}))
    assert seen(layout) == [("cuda:0", ["blue"]), (None, ["amber"])]
    assert (layout.rows[1].uuid, layout.rows[1].name) == (None, None)
    assert rows.keys(layout) == [gpu_uuid(0), "amber\x000"]


def test_two_engines_on_one_gpu_are_one_row() -> None:
    layout = rows.layout(live_view(gpus=(0, 1), placed={"amber": (1,), "blue": (1, 0)}))
    assert seen(layout) == [("cuda:1", ["amber", "blue"]), ("cuda:0", ["blue"])]


def test_workers_on_no_listed_gpu_place_nothing() -> None:
    view = live_view()
    lost = make_view(devices=view.devices, engines=view.engines, ranks=())
    strange = replace(rank_view(), replica="unknown", device=0)
    nowhere = placed_on(None, replace(rank_view(), replica="blue"))
    for ranks in ((), (strange,), (nowhere,)):
        layout = rows.layout(replace(lost, ranks=ranks))
        assert seen(layout) == [("cuda:0", []), (None, ["blue"])]


def test_of_two_gpus_with_one_index_the_engine_is_on_the_one_with_its_uuid() -> None:
    """A lost GPU keeps its index, and the GPU after it moves up to the same one."""
    view = live_view(gpus=(0, 1), placed={"blue": (1,)})
    lost = view.devices[0]
    moved_up = replace(view.devices[1], facts=replace(view.devices[1].facts, index=0))
    ranks = (replace(view.ranks[0], device=0, fragmentation_ratio=0.5),)
    for devices in ((lost, moved_up), (moved_up, lost)):
        shifted = replace(view, devices=devices, ranks=ranks)
        layout = rows.layout(shifted)
        assert [(row.uuid, row.engines) for row in layout.rows] == [
            (gpu_uuid(1), (0,)),
            (gpu_uuid(0), ()),
        ]
        assert [figures[3] for figures in rows.ratios(shifted, layout)] == [0.5, None]


def test_an_engine_on_a_mig_device_is_on_its_gpu() -> None:
    view = live_view(gpus=(0, 1), placed={"blue": (1,)})
    rank = view.ranks[0]
    on_mig = replace(rank, torch=replace(rank.torch, uuid=mig_uuid(1)), fragmentation_ratio=0.5)
    view = replace(view, ranks=(on_mig,))
    layout = rows.layout(view)
    assert seen(layout) == [("cuda:1", ["blue"]), ("cuda:0", [])]
    assert [figures[3] for figures in rows.ratios(view, layout)] == [0.5, None]


def test_an_engine_that_falls_silent_keeps_its_gpus() -> None:
    before = rows.layout(live_view(gpus=(0, 1), placed={"amber": (1,), "blue": (0,)}))
    silent = live_view(gpus=(0, 1), placed={"amber": (), "blue": (0,)})
    assert rows.layout(silent, before) == before
    moved = rows.layout(live_view(gpus=(0, 1), placed={"amber": (0,), "blue": (0,)}), before)
    assert seen(moved) == [("cuda:0", ["amber", "blue"]), ("cuda:1", [])]


def test_an_engine_that_is_gone_leaves_its_gpus() -> None:
    before = rows.layout(live_view(gpus=(0, 1), placed={"amber": (1,), "blue": (0,)}))
    after = rows.layout(live_view(gpus=(0, 1), placed={"blue": (0,)}), before)
    assert seen(after) == [("cuda:0", ["blue"]), ("cuda:1", [])]


def test_more_rows_than_the_page_can_hold_are_counted() -> None:
    layout = rows.layout(live_view(gpus=tuple(range(MAX_ROWS + 3)), placed={}))
    assert (len(layout.rows), layout.rows_left_out) == (MAX_ROWS, 3)


def test_figures_of_a_row_are_the_highest_of_its_engines_and_workers() -> None:
    view = live_view(gpus=(0, 1), placed={"amber": (1,), "blue": (1, 0)})
    amber = replace(view.ranks[0], fragmentation_ratio=0.125)
    blue = replace(view.ranks[1], fragmentation_ratio=0.5)
    silent = replace(view.ranks[2], fragmentation_ratio=None)
    engines = (engine("amber", 0.75), engine("blue", 0.5))
    view = replace(view, engines=engines, ranks=(amber, blue, silent))
    shared, alone = rows.ratios(view, rows.layout(view))
    assert shared == (0.25, 600 / 950, 0.75, 0.5, 0.41)
    assert alone == (0.25, 600 / 950, 0.5, None, 0.41)


def test_an_engine_alone_has_only_its_usage() -> None:
    view = live_view(gpus=(), placed={"blue": ()})
    assert rows.ratios(view, rows.layout(view)) == [(None, None, 0.25, None, None)]


def test_what_is_not_known_has_no_figure() -> None:
    view = bare_view()
    assert rows.ratios(view, rows.layout(view)) == [(None,) * 5, (None,) * 5]
    down = live_view(placed={})
    down = replace(down, devices=(replace(gpu_view(), sample=None, pressure_ratio=None),))
    assert rows.ratios(down, rows.layout(down)) == [(0.25, None, None, None, None)]
