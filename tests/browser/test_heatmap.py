"""Colours and words of known samples, out of a replay that stands still."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from exporter.records.device import ProcessMemory
from tests.browser.conftest import OpenPage
from tests.browser.live_page import Colour
from tests.browser.scenes import MIB, Tick, gpu, kv, torch, write
from tests.daemon import Daemon, running

VIRIDIS = [
    (68, 1, 84, 255),
    (65, 68, 135, 255),
    (42, 120, 142, 255),
    (34, 168, 132, 255),
    (122, 209, 81, 255),
    (253, 231, 37, 255),
]  # of 0, 0.2, 0.4, 0.6, 0.8 and 1
ENGINE, OTHERS = 0, 1  # groups


@pytest.fixture(scope="module")
def ladder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Ten ticks: GPU 6 has an engine at 0.6, in the last one at 1; GPUs 0 to 5 are at 0, 0.2, … 1.

    GPU 1 does not answer in the last three. Only GPU 0 tells of its memory controller: 0.4.
    """
    path = tmp_path_factory.mktemp("ladder") / "ladder.jsonl"
    ticks: list[Tick] = [
        (
            tick / 2,
            [gpu(0, 0, controller=0.4), gpu(1, None if tick >= 7 else 2000)]
            + [gpu(index, 2000 * index) for index in range(2, 6)]
            + [gpu(6, 4200, ProcessMemory(pid=20, used_bytes=4100 * MIB))],
            [kv(tick / 2, 1000 if tick == 9 else 600), torch(tick / 2, 6)],
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
    colours = [page.colour(row, age=3, group=OTHERS) for row in range(6)]
    assert all(map(is_like, colours, VIRIDIS)), colours


def test_a_gap_is_hatched_and_never_the_colour_of_0(ladder: Daemon, open_page: OpenPage) -> None:
    page = open_page(ladder.address, "?metric=device_pressure")
    for row, age in ((1, 0), (1, 2), (0, 10)):  # GPU 1 without an answer; before the first sample
        pixels = page.pixels(row, age, group=OTHERS)
        assert len(pixels) > 1
        assert not any(is_like(pixel, VIRIDIS[0]) for pixel in pixels)
    assert len(page.pixels(0, 9, group=OTHERS)) == 1  # the oldest sample


def test_the_metric_can_be_switched_and_stays_in_the_address(
    ladder: Daemon, open_page: OpenPage
) -> None:
    page = open_page(ladder.address)
    assert is_like(page.colour(0, 0, ENGINE), VIRIDIS[5])
    assert is_like(page.colour(0, 1, ENGINE), VIRIDIS[3])
    page.choose("memory controller")
    page.wait_for_paint("memory_controller")
    assert is_like(page.colour(0, 0, OTHERS), VIRIDIS[2])
    assert len(page.pixels(0, 0, ENGINE)) > 1  # tells no such figure
    assert page.page.url.endswith("?metric=memory_controller&window=60s")
    page.page.reload()
    page.wait_for_paint("memory_controller")
    assert page.at("#metric input:checked").get_attribute("value") == "memory_controller"


def test_a_longer_window_has_the_maximum_of_each_column(
    ladder: Daemon, open_page: OpenPage
) -> None:
    page = open_page(ladder.address)
    page.choose("5 min")
    page.wait_for_paint("effective_pressure", "5m")
    assert is_like(page.colour(0, 0, ENGINE), VIRIDIS[5])  # 2.5 to 5 s: the last tick is in
    assert is_like(page.colour(0, 1, ENGINE), VIRIDIS[3])
    assert page.text("#ticks").split("\n") == [
        "−5 min",
        "−3.75 min",
        "−2.5 min",
        "−75 s",
        "now",
    ]


def test_what_the_address_asks_in_vain_falls_back(ladder: Daemon, open_page: OpenPage) -> None:
    page = open_page(ladder.address, "?metric=constructor&window=1h")
    page.wait_for_paint("effective_pressure")


def test_the_headline_answers_at_a_glance(ladder: Daemon, open_page: OpenPage) -> None:
    page = open_page(ladder.address)
    headline = page.text("#headline")
    assert headline.startswith("cuda:6 has been full since ")
    assert headline.endswith("(1 s): effective pressure 1.00")
    assert page.text("#subline") == (
        "cuda:6 holds KV active 2.10 GB, weights 1.05 GB, driver 1.05 GB."
    )
    assert page.text("#replay") == "Replay of ladder: these figures are not of this machine."
    assert page.text("#state") == "Replay"
    assert page.text(".now >> nth=1") == "1.00"
    assert page.text(".sizes >> nth=1") == "4.40 / 11.53 GB"
    assert page.text(".group >> nth=0 >> dl").split("\n") == [
        "KV blocks",
        "1,000 active · 0 cached · 0 free of 1,000",
    ]


def test_hovering_tells_value_time_and_owners(ladder: Daemon, open_page: OpenPage) -> None:
    page = open_page(ladder.address)
    page.hover(row=0, age=0, group=ENGINE)
    lines = [line for line in page.text("#card").split("\n") if line]
    assert lines[0] == "cuda:6"
    assert lines[2:4] == ["1.0000", "effective pressure"]
    owners = dict(zip(lines[4::2], lines[5::2], strict=True))
    assert owners["KV active"] == "2.10 GB"  # 1,000 blocks of 2 MiB
    assert owners["weights"] == "1.05 GB"
    assert owners["free"] == "6.08 GB"  # 5,800 MiB
    page.hover(row=0, age=1, group=ENGINE)
    assert page.text("#card .value") == "0.6000"
    page.hover(row=1, age=0, group=OTHERS)
    assert page.text("#card .value") == "no sample"


def test_keys_move_a_cursor_and_are_spoken(ladder: Daemon, open_page: OpenPage) -> None:
    page = open_page(ladder.address)
    page.at("#board").focus()
    spoken = []
    for key in ("ArrowLeft", "ArrowLeft", "ArrowDown", "Home"):
        page.page.keyboard.press(key)
        spoken.append(page.at("#spoken").inner_text())
    assert "effective pressure 1.0000, free 6.08 GB, KV active 2.10 GB" in spoken[0]
    assert "effective pressure 0.6000" in spoken[1]
    assert spoken[2].startswith("cuda:0 at ")
    assert spoken[2].endswith("no sample")
    page.page.keyboard.press("End")
    page.page.keyboard.press("ArrowUp")
    assert page.text("#card .value") == "1.0000"
    page.page.keyboard.press("Escape")
    assert page.at("#card").is_hidden()


def test_hovering_the_marks_tells_who_came_and_when(tmp_path: Path, open_page: OpenPage) -> None:
    """Two GPUs of one engine; a guest comes onto the second one in tick 6 of ten, 2 s ago."""
    workers = [ProcessMemory(pid=20 + rank, used_bytes=4100 * MIB) for rank in range(2)]
    guest = ProcessMemory(pid=77, used_bytes=2000 * MIB, name="notebook")
    ticks: list[Tick] = [
        (
            tick / 2,
            [
                gpu(0, 4200, workers[0]),
                gpu(1, 6200, workers[1], guest) if tick >= 6 else gpu(1, 4200, workers[1]),
            ],
            [kv(tick / 2, 500), torch(tick / 2, 0), torch(tick / 2, 1, pid=21, rank=1)],
        )
        for tick in range(10)
    ]
    path = write(tmp_path / "guest.jsonl", ticks)
    with running("serve", "--replay", str(path), "--replay.freeze-at", "4.5") as daemon:
        [mark] = json.loads(daemon.get("/api/conflicts")[1])
        since = datetime.fromtimestamp(round(mark["ts_unix_ns"] / 1e9, 1), UTC)  # as shown
        page = open_page(daemon.address, "?metric=device_pressure")
        page.hover_lane(age=1)
        assert page.text("#card h3").startswith("cuda:1")
        assert page.text("#card .sign") == (
            f"co-tenant on cuda:1: pid 77 (notebook), holds 2.10 GB, since {since:%H:%M:%S}"
        )
        page.hover_lane(age=8)
        assert page.text("#card h3").startswith("cuda:0")
        assert page.at("#card .sign").count() == 0
        page.close()


def test_a_label_on_stripes_stands_on_a_plain_ground(ladder: Daemon, open_page: OpenPage) -> None:
    page = open_page(ladder.address)
    pixels = page.evaluate(_LABEL_ON_STRIPES, "KV cached + free 90.00 GB")
    assert all(max(pixel) - min(pixel) <= 2 for pixel in pixels)  # of ground and text alone
    assert [255, 255, 255] in pixels
    assert min(sum(pixel) for pixel in pixels) < 3 * 64


_LABEL_ON_STRIPES = """async (text) => {
  const { paintMemory } = await import("/static/paint.js");
  const canvas = Object.assign(document.createElement("canvas"), { width: 400, height: 26 });
  const pen = canvas.getContext("2d");
  const look = { surface: "#fff", text: "#000", track: "#ddd", gap: "#ccc" };
  const bars = [{ total: 100e9, owners: { kv_unsplit: 90e9, free: 10e9 } }];
  paintMemory({ pen, width: 400, height: 26 }, bars, look);
  pen.font = "12px Arial, sans-serif";
  const wide = Math.floor(pen.measureText(text).width);
  const { data } = pen.getImageData(4, 7, wide, 12);
  return Array.from({ length: 12 * wide }, (_, at) => [...data.slice(4 * at, 4 * at + 3)]);
}"""
