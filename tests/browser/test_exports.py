"""What a person takes away: the samples as CSV, the board as a picture."""

import csv
import io
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.conftest import OpenPage
from tests.browser.live_page import LivePage
from tests.browser.scenes import gpu, kv, uuid_of, write
from tests.daemon import Daemon, running


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Two GPUs, the second silent in the last of three ticks, and an engine without a known GPU."""
    path = tmp_path_factory.mktemp("pair") / "pair.jsonl"
    write(
        path,
        [
            (
                tick / 2,
                [gpu(0, 1234), gpu(1, None if tick == 2 else 5000)],
                [kv(tick / 2, 5, replica='=cmd("x"),1')],
            )
            for tick in range(3)
        ],
    )
    with running("serve", "--replay", str(path), "--replay.freeze-at", "1") as daemon:
        yield daemon


def saved(page: LivePage, button: str) -> tuple[str, bytes]:
    """Name and content of the file that a button of the export menu gives."""
    page.at("#export summary").click()
    with page.page.expect_download() as download:
        page.at(button).click()
    return download.value.suggested_filename, Path(download.value.path()).read_bytes()


def test_csv_has_a_line_a_column_and_empty_fields_for_what_is_unknown(
    pair: Daemon, open_page: OpenPage
) -> None:
    page = open_page(pair.address, "?metric=device_pressure")
    name, content = saved(page, "#save-csv")
    assert re.fullmatch(r"live-device_pressure-60s-\d{8}T\d{6}Z\.csv", name)
    lines = list(csv.reader(io.StringIO(content.decode(), newline="")))
    assert len(lines) == 121
    assert lines[0] == [
        "time",
        f"cuda:0 {uuid_of(0)}",
        f"cuda:1 {uuid_of(1)}",
        '\'=cmd("x"),1/0',  # no formula
    ]
    assert [line[1:] for line in lines[-4:]] == [
        ["", "", ""],
        ["0.1234", "0.5000", ""],
        ["0.1234", "0.5000", ""],
        ["0.1234", "", ""],
    ]
    assert lines[-1][0].endswith("Z")


def test_csv_can_be_copied_where_the_browser_allows_it(pair: Daemon, open_page: OpenPage) -> None:
    allowed = ["clipboard-read", "clipboard-write"]
    page = open_page(pair.address, "?metric=device_pressure", permissions=allowed)
    page.at("#export summary").click()
    page.at("#copy-csv").click()
    page.wait_for("document.getElementById('done').textContent === 'Done: Copy CSV'")
    copied = page.evaluate("() => navigator.clipboard.readText()")
    assert copied.splitlines()[-1].endswith(",0.1234,,")


def test_the_picture_is_a_png_of_the_board(pair: Daemon, open_page: OpenPage) -> None:
    page = open_page(pair.address, "?metric=device_pressure")
    name, content = saved(page, "#save-png")
    assert name.endswith(".png")
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", content[16:24])
    assert width == 2400
    assert height > 400
