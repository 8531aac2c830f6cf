"""Names that want to be HTML stay text, and the policy would stop them anyway."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Error

from exporter.records.device import ProcessMemory
from tests.browser.conftest import OpenPage
from tests.browser.scenes import HOSTILE, MIB, Tick, gpu, kv, torch, write
from tests.daemon import Daemon, running


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Recording, replica, model and a co-tenant have the same hostile name."""
    path = tmp_path_factory.mktemp("hostile") / "hostile.jsonl"
    engine = ProcessMemory(pid=20, used_bytes=4100 * MIB, name="VLLM::EngineCore")
    guest = ProcessMemory(pid=77, used_bytes=2000 * MIB, name=HOSTILE)
    ticks: list[Tick] = [
        (
            tick / 2,
            [gpu(0, 6200, engine, guest) if tick >= 4 else gpu(0, 4200, engine)],
            [
                kv(tick / 2, 500, replica=HOSTILE, model_name=HOSTILE, preemptions=tick),
                torch(tick / 2, 0, replica=HOSTILE),
            ],
        )
        for tick in range(20)
    ]
    write(path, ticks, name=HOSTILE)
    with running("serve", "--replay", str(path), "--replay.freeze-at", "9.5") as daemon:
        yield daemon


def test_hostile_names_stay_text(hostile: Daemon, open_page: OpenPage) -> None:
    page = open_page(hostile.address)
    assert page.text(".group h2").startswith(f"{HOSTILE}/0")
    assert HOSTILE in page.text("#replay")
    events = page.text("#events")
    assert f"pid 77 ({HOSTILE})" in events
    assert f"19 preemptions in {HOSTILE}/0" in events
    page.hover(row=0, age=0)
    assert f"pid 77 ({HOSTILE})" in page.text("#card")
    assert page.at("img").count() == 1  # the page's own mark
    assert page.page.title() == "Live GPU memory"


def test_the_policy_lets_nothing_else_run(hostile: Daemon, open_page: OpenPage) -> None:
    page = open_page(hostile.address)
    page.expected_errors = re.compile("Content Security Policy|Trusted|TrustedHTML")
    with pytest.raises(Error, match="Trusted"):
        page.evaluate("html => { document.body.innerHTML = html; }", HOSTILE)
    with pytest.raises(Error, match="Trusted"):
        page.evaluate("() => { document.createElement('script').text = 'window.ran = true'; }")
    loaded = page.evaluate(
        "() => fetch('http://127.0.0.2:1/').then(() => 'loaded', (error) => error.name)"
    )
    assert loaded == "TypeError"
    assert page.strangers == []  # stopped before it was asked
