"""The live stream of the program as users run it: replayed, and on the stand-in driver."""

import http.client
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.daemon import TIMEOUT_S, Daemon, running
from tests.fake_nvml import FakeGpu, Scenario, environment
from tests.live_client import MISSING, Event, Shown, Viewer

RECORDINGS = Path("exporter/recordings")
TP4 = str(RECORDINGS / "tp4_cotenant.jsonl")
TOTAL, RESERVED = 150_754_820_096, 644_939_776


def scenario(*used_bytes: int, **rules: object) -> Scenario:
    """GPUs of these used bytes."""
    gpus = [
        FakeGpu(uuid=f"GPU-0000000{index}-0000-0000-0000-000000000000", memory_used=used)
        for index, used in enumerate(used_bytes)
    ]
    return Scenario(gpus=gpus, **rules)  # type: ignore[arg-type]


@pytest.fixture
def driver(fake_nvml_library: Path, tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A scenario file with two GPUs, and the variables that make a process play it."""
    path = tmp_path / "scenario"
    scenario(75_000_000_000, 30_000_000_000).write(path)
    return path, environment(fake_nvml_library, path)


@pytest.fixture(scope="module")
def frozen() -> Iterator[Daemon]:
    """Four GPUs of one engine as they stood 36.2 s into the recording."""
    with running("serve", "--replay", TP4, "--replay.freeze-at", "36.2") as daemon:
        daemon.wait_for(bool)
        yield daemon


@pytest.fixture(scope="module")
def replayed() -> Iterator[Daemon]:
    """The bundled recording, playing."""
    with running("demo") as daemon:
        daemon.wait_for(lambda samples: any("vllm_torch_reserved" in name for name in samples))
        yield daemon


def until(viewer: Viewer, is_there: Callable[[Event], bool]) -> Event:
    """The first event like this; the connection's timeout is the deadline of each."""
    for event in viewer.events():
        if is_there(event):
            return event
    raise AssertionError("the stream ended")


def until_shown(viewer: Viewer, is_there: Callable[[Shown], bool]) -> None:
    until(viewer, lambda _event: is_there(viewer.shown))


def newest(shown: Shown) -> list[int]:
    """Codes of the newest column; none before the first event."""
    return shown.cells[-1] if shown.cells else [MISSING]


def named(name: str) -> Callable[[Event], bool]:
    return lambda event: event.name == name


def code(ratio: float) -> int:
    return round(ratio * 10_000)


def test_a_frozen_replay_shows_its_history_and_is_never_stale(frozen: Daemon) -> None:
    with Viewer(frozen.address, metric="effective_pressure") as viewer:
        idle = until(viewer, named("idle"))
        shown = viewer.shown
    assert idle.data == {"age_s": 0.0, "is_stale": False}
    assert [row["device"] for row in shown.layout["rows"]] == [
        "cuda:0",
        "cuda:1",
        "cuda:2",
        "cuda:3",
    ]
    assert {tuple(row["engines"]) for row in shown.layout["rows"]} == {(0,)}
    assert shown.head["replay"] == "tp4_cotenant"
    assert shown.cells[-1] == [6001] * 4  # 3600 of 5999 blocks
    known = [column for column in shown.cells if column[1] != MISSING]
    assert len(known) == 73  # 0 to 36.2 s, a column each 0.5 s
    assert shown.column == 72


def test_its_ledgers_blocks_and_conflicts_are_those_of_the_other_pages(frozen: Daemon) -> None:
    """The GPU 1 of that moment, byte for byte known from the recording's session."""
    with Viewer(frozen.address) as viewer:
        until(viewer, named("full"))
        shown = viewer.shown
    for owner, owned_bytes in (
        ("kv_active", 1_887_436_800),
        ("allocator_slack", 854_537_728),
        ("other_processes", 7_084_179_456),
        ("driver_reserved", RESERVED),
    ):
        assert shown.state[f"ledger.{owner}"][1] == code(owned_bytes / TOTAL), owner
    assert shown.state["memory_total_mib"][1] == TOTAL >> 20
    assert shown.state["kv_blocks"] == [5999]
    assert shown.state["kv.active"] == [3600]
    assert shown.marks
    assert {mark["uuid"] for mark in shown.marks.values()} <= {
        row["uuid"] for row in shown.layout["rows"]
    }
    assert all(0 < mark["unix_ms"] <= shown.unix_ms for mark in shown.marks.values())


@pytest.mark.parametrize(("window", "columns"), [("60s", 73), ("5m", 15), ("15m", 5)])
def test_every_window_has_the_history(frozen: Daemon, window: str, columns: int) -> None:
    with Viewer(frozen.address, metric="device_pressure", window=window) as viewer:
        until(viewer, named("full"))
    known = [column for column in viewer.shown.cells if MISSING not in column]
    assert (len(viewer.shown.cells), len(known)) == (120, columns)


def test_a_replay_that_plays_sends_one_delta_a_tick(replayed: Daemon) -> None:
    with Viewer(replayed.address, metric="kv_usage") as viewer:
        events = viewer.events()
        first, *others = [next(events) for _ in range(6)]
    assert first.name == "full"
    assert {event.name for event in others} == {"delta"}
    times = [event.data["unix_ms"] for event in (first, *others)]
    assert times == sorted(set(times))


def test_what_deltas_add_up_to_is_what_a_newcomer_is_shown(replayed: Daemon) -> None:
    with Viewer(replayed.address) as follower:
        events = follower.events()
        for _ in range(4):
            next(events)
        with Viewer(replayed.address) as newcomer:
            meet(follower, newcomer)
        assert follower.shown == newcomer.shown


@pytest.mark.parametrize("way", ["header", "parameter"])
def test_a_viewer_that_comes_back_is_told_what_it_missed(replayed: Daemon, way: str) -> None:
    with Viewer(replayed.address) as gone:
        next(gone.events())
    with Viewer(replayed.address) as other:
        until(other, lambda event: event.data["column"] > gone.shown.column + 3)
    last_id = str(gone.last_id)
    told = {"last_event_id": last_id} if way == "header" else {"after": last_id}
    with Viewer(replayed.address, **told) as back, Viewer(replayed.address) as newcomer:
        back.shown = gone.shown
        assert next(back.events()).name == "delta"
        meet(back, newcomer)
        assert back.shown == newcomer.shown


def test_an_id_of_another_window_or_of_another_run_begins_anew(
    replayed: Daemon, frozen: Daemon
) -> None:
    with Viewer(replayed.address) as gone:
        next(gone.events())
    last_id = str(gone.last_id)
    with Viewer(replayed.address, last_id, window="5m") as other:
        assert next(other.events()).name == "full"
    with Viewer(frozen.address, last_id) as other:
        assert next(other.events()).name == "full"


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (
            {"metric": "kv<b>"},
            "metric: 'kv<b>' is none; allowed: effective_pressure, device_pressure, kv_usage, ",
        ),
        ({"metric": ""}, "metric: '' is none; allowed: effective_pressure,"),
        ({"window": "60"}, "window: '60' is none; allowed: 60s, 5m, 15m\n"),
    ],
)
def test_an_unknown_metric_or_window_is_told_the_known_ones(
    frozen: Daemon, query: dict[str, str], text: str
) -> None:
    with Viewer(frozen.address, **query) as viewer:
        assert viewer.status == 400
        assert viewer.headers["content-type"] == "text/plain; charset=utf-8"
        assert viewer.text.startswith(text)


def test_head_ends_at_once(frozen: Daemon) -> None:
    connection = http.client.HTTPConnection(frozen.address, timeout=30)
    connection.request("HEAD", "/api/live")
    response = connection.getresponse()
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert (response.status, response.read()) == (200, b"")
    connection.close()


def test_it_is_never_compressed_nor_kept_back(frozen: Daemon) -> None:
    connection = http.client.HTTPConnection(frozen.address, timeout=30)
    connection.request("GET", "/api/live", headers={"Accept-Encoding": "gzip, br"})
    response = connection.getresponse()
    assert response.headers["content-encoding"] is None
    assert response.headers["cache-control"] == "no-store, no-transform"
    assert response.headers["x-accel-buffering"] == "no"
    assert response.readline() == b"retry: 1000\n"
    response.close()
    connection.close()


def test_gpus_of_the_driver_and_one_that_is_lost(driver: tuple[Path, dict[str, str]]) -> None:
    path, variables = driver
    pressures = [code(used / (TOTAL - RESERVED)) for used in (75_000_000_000, 30_000_000_000)]
    with (
        running("serve", "--nvml.interval", "100ms", environment=variables) as daemon,
        Viewer(daemon.address, metric="device_pressure") as viewer,
    ):
        until_shown(viewer, lambda shown: newest(shown) == pressures)
        assert [row["name"] for row in viewer.shown.layout["rows"]] == ["NVIDIA H200"] * 2
        assert viewer.shown.head["replay"] is None
        scenario(75_000_000_000).write(path)
        until_shown(viewer, lambda shown: newest(shown) == [pressures[0], MISSING])
        until_shown(viewer, lambda shown: shown.state["up"] == [True, False])
        assert viewer.shown.state["ledger.free"][1] == MISSING


def test_a_driver_that_hangs_is_a_gap_and_the_ticks_go_on(
    driver: tuple[Path, dict[str, str]],
) -> None:
    path, variables = driver
    with (
        running("serve", "--nvml.interval", "100ms", environment=variables) as daemon,
        Viewer(daemon.address, metric="device_pressure") as viewer,
    ):
        until_shown(viewer, lambda shown: MISSING not in newest(shown))
        used = (75_000_000_000, 30_000_000_000)
        scenario(*used, delay_s={"nvmlDeviceGetMemoryInfo_v2": 60}).write(path)
        until_shown(viewer, lambda shown: newest(shown) == [MISSING, MISSING])


def test_without_gpus_it_is_an_empty_page(tmp_path: Path) -> None:
    with (
        running("serve", "--no-nvml", "--trace.path", str(tmp_path)) as daemon,
        Viewer(daemon.address) as viewer,
    ):
        full = until(viewer, named("full"))
        assert full.data["layout"] == {"rows": [], "engines": [], "rows_left_out": 0}
        assert until(viewer, named("delta")).data["cells"] == ""


def test_an_engine_without_a_gpu_has_a_row(tmp_path: Path) -> None:
    log = tmp_path / "blue.log"
    log.write_text(
        "INFO 07-30 12:00:00 [loggers.py:200] Engine 000: Avg prompt throughput: 0.0 tokens/s,"
        " Avg generation throughput: 0.0 tokens/s, Running: 3 reqs, Waiting: 2 reqs,"
        " GPU KV cache usage: 42.5%, Prefix cache hit rate: 0.0%\n"
    )
    with (
        running("serve", "--no-nvml", "--trace.path", str(log)) as daemon,
        Viewer(daemon.address, metric="kv_usage") as viewer,
    ):
        until_shown(viewer, lambda shown: newest(shown) == [4250])
        (row,) = viewer.shown.layout["rows"]
        assert row == {"uuid": None, "device": None, "name": None, "engines": [0]}
        assert viewer.shown.layout["engines"][0]["replica"] == "blue"
        assert (viewer.shown.state["running"], viewer.shown.state["waiting"]) == ([3], [2])


def test_the_65th_viewer_is_told_why_not_and_a_place_is_free_again(frozen: Daemon) -> None:
    with ExitStack() as stack:
        viewers = [stack.enter_context(Viewer(frozen.address)) for _ in range(64)]
        for viewer in viewers:
            until(viewer, named("full"))
        with Viewer(frozen.address) as refused:
            assert refused.status == 503
            assert refused.headers["retry-after"] == "5"
            assert refused.text.startswith("64 viewers look at the live stream already")
        assert frozen.get("/metrics")[0] == 200
        viewers[7].close()
        deadline_s = time.monotonic() + TIMEOUT_S
        while stack.enter_context(Viewer(frozen.address)).status != 200:
            assert time.monotonic() < deadline_s
            time.sleep(0.05)  # between two attempts


def test_a_signal_ends_it_with_viewers_and_their_streams_end_well() -> None:
    """Nobody is waited for: the server would log that it cancels streams after a second."""
    with running("demo") as daemon, ExitStack() as stack:
        viewers = [stack.enter_context(Viewer(daemon.address)) for _ in range(5)]
        for viewer in viewers:
            until(viewer, named("full"))
        assert daemon.terminate() == 0
        for viewer in viewers:
            assert all(event.name in ("delta", "idle") for event in viewer.events())
        assert not [line for line in daemon.log if "level=error" in line]


def meet(one: Viewer, other: Viewer) -> None:
    """Read on with whichever is behind until both have seen the same tick, and no more."""
    while one.shown.unix_ms != other.shown.unix_ms:
        behind = one if one.shown.unix_ms < other.shown.unix_ms else other
        next(behind.events())
