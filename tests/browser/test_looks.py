"""Light and dark, a phone, many GPUs, and nothing more than the page needs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.web.static_files import DIRECTORY
from tests.browser.conftest import OpenPage
from tests.browser.live_page import LivePage
from tests.browser.scenes import gpu, uuid_of, write
from tests.daemon import Daemon, running
from tests.fake_nvml import FakeGpu, Scenario, environment

MAX_PAGE_BYTES = 60_000  # on disk, as people read them
LIGHT, DARK = "rgb(244, 246, 248)", "rgb(14, 18, 23)"


@pytest.fixture(scope="module")
def fleet(fake_nvml_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """64 GPUs of the stand-in driver."""
    scenario = tmp_path_factory.mktemp("fleet") / "scenario"
    Scenario(
        gpus=[FakeGpu(uuid=uuid_of(index), memory_used=index * 2 * 10**9) for index in range(64)]
    ).write(scenario)
    with running("serve", environment=environment(fake_nvml_library, scenario)) as daemon:
        yield daemon


def ground(page: LivePage) -> str:
    """The page's background."""
    return str(page.evaluate("() => getComputedStyle(document.body).backgroundColor"))


def test_it_follows_the_system_and_then_the_switch(fleet: Daemon, open_page: OpenPage) -> None:
    page = open_page(fleet.address, "?metric=device_pressure", color_scheme="dark")
    assert ground(page) == DARK
    page.page.emulate_media(color_scheme="light")
    page.wait_for(f"getComputedStyle(document.body).backgroundColor === '{LIGHT}'")
    page.at("#theme").click()
    assert ground(page) == DARK
    page.page.reload()
    page.wait_for_paint("device_pressure")
    assert ground(page) == DARK


def test_a_phone_shows_all_without_scrolling_sideways(fleet: Daemon, open_page: OpenPage) -> None:
    size = {"width": 390, "height": 844}
    page = open_page(fleet.address, "?metric=device_pressure", viewport=size, device_scale_factor=3)
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390
    assert page.at("canvas.heat").evaluate("(c) => c.clientWidth") > 200
    assert page.at("canvas.memory").evaluate("(c) => c.clientWidth") > 200
    outside = """() => [...document.querySelectorAll("main *, header *")].filter((element) => {
      const { left, right, width } = element.getBoundingClientRect();
      return width > 0 && (left < 0 || right > innerWidth);
    }).map((element) => element.outerHTML.slice(0, 80))"""
    assert page.evaluate(outside) == []


def test_64_gpus_have_a_row_each(fleet: Daemon, open_page: OpenPage) -> None:
    page = open_page(fleet.address, "?metric=device_pressure")
    assert page.at(".names:not(.again) li").count() == 64
    assert page.colour(row=0, age=0) == (68, 1, 84, 255)  # 0 bytes used
    assert page.text(".now >> nth=1").split()[63] == "0.84"  # 126e9 of 150.1e9
    assert page.text("#headline") == "Highest device pressure: 0.84 on cuda:63"
    assert page.text("#state") == "Live"
    assert page.at("#replay").is_hidden()


def test_512_gpus_are_drawn_and_told(tmp_path: Path, open_page: OpenPage) -> None:
    gpus = [gpu(index, 10_000 if index == 300 else 2_000) for index in range(512)]
    path = write(tmp_path / "512.jsonl", [(0.0, gpus, [])])
    with running("serve", "--replay", str(path), "--replay.freeze-at", "0") as daemon:
        page = open_page(daemon.address, "?metric=device_pressure")
        assert page.colour(row=300, age=0) == (253, 231, 37, 255)
        assert page.colour(row=301, age=0)[:3] != (253, 231, 37)
        page.hover(row=300, age=0)
        assert page.text("#card h3").startswith("cuda:300")
        page.close()


def test_rows_that_are_too_many_are_counted(tmp_path: Path, open_page: OpenPage) -> None:
    gpus = [gpu(index, 2_000) for index in range(1026)]
    path = write(tmp_path / "1026.jsonl", [(0.0, gpus, [])])
    with running("serve", "--replay", str(path), "--replay.freeze-at", "0") as daemon:
        page = open_page(daemon.address, "?metric=device_pressure")
        assert page.at(".names:not(.again) li").count() == 1024
        assert page.text("#subline").endswith("2 rows more than this page shows.")
        page.close()


def test_the_page_with_all_its_files_is_small(fleet: Daemon, open_page: OpenPage) -> None:
    page = open_page(fleet.address, "?metric=device_pressure")
    asked = page.evaluate("() => performance.getEntriesByType('resource').map(({ name }) => name)")
    files = {path.name: path.stat().st_size for path in DIRECTORY.iterdir()}
    # None is there for nothing.
    assert files.keys() - {"live.html"} <= {name.rsplit("/", 1)[1] for name in asked}
    assert sum(files.values()) <= MAX_PAGE_BYTES
