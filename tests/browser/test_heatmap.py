"""Colours and words of known samples, out of a replay that stands still."""

from collections.abc import Iterator

import pytest

from tests.browser.conftest import OpenPage
from tests.browser.live_page import Colour
from tests.browser.scenes import Tick, gpu, kv, torch, write
from tests.daemon import Daemon, running

VIRIDIS = [
    (68, 1, 84, 255),
    (65, 68, 135, 255),
    (42, 120, 142, 255),
    (34, 168, 132, 255),
    (122, 209, 81, 255),
    (253, 231, 37, 255),
]  # of 0, 0.2, 0.4, 0.6, 0.8 and 1


@pytest.fixture(scope="module")
def ladder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """GPUs at 0, 0.2, … 1 for ten ticks; GPU 1 is not read in the last three.

    GPU 0 has an engine at 0.6, and at 0.9 in the last tick.
    """
    path = tmp_path_factory.mktemp("ladder") / "ladder.jsonl"
    ticks: list[Tick] = [
        (
            tick / 2,
            [gpu(0, 0, controller=0.4)]
            + [gpu(1, None if tick >= 7 else 2000)]
            + [gpu(index, 2000 * index) for index in range(2, 6)],
            [kv(tick / 2, 900 if tick == 9 else 600), torch(tick / 2, 0)],
        )
        for tick in range(10)
    ]
    write(path, ticks, name="ladder")
    with running("serve", "--replay", str(path), "--replay.freeze-at", "4.5") as daemon:
        yield daemon


def is_like(colour: Colour, other: Colour) -> bool:
    """The same but for rounding."""
    return all(abs(one - two) <= 1 for one, two in zip(colour, other, strict=True))


def test_colours_are_viridis_from_0_to_1(ladder: Daemon, open_page: OpenPage) -> None:
    page = open_page(ladder.address, "?metric=device_pressure&window=60s")
    colours = [
        page.colour(row=0, age=0, group=0),
        page.colour(row=0, age=3, group=1),  # GPU 1, before it fell silent
        *(page.colour(row=index - 1, age=0, group=1) for index in range(2, 6)),
    ]
    assert all(map(is_like, colours, VIRIDIS)), colours
