"""`processes`: who holds which GPU's memory, now or again and again."""

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from exporter import app
from exporter.clock import Clock, SystemClock
from exporter.commands.daemon_view import DaemonView
from exporter.commands.process_rows import Machine, machine
from exporter.commands.stop_signals import set_by_signals
from exporter.errors import ConfigError, ExporterError
from exporter.records.process import ProcessFacts, RecordedProcesses
from exporter.records.view import View
from exporter.settings import Settings
from exporter.sources.process_facts import LocalProcesses

FIRST_VIEW_TIMEOUT_S = 5.0
SHORTEST_PAUSE_S = 0.1

log = logging.getLogger(__name__)


def run(
    settings: Settings,
    url: str | None,
    *,
    is_json: bool,
    is_watching: bool,
    shows_commands: bool,
) -> None:
    """Print the processes once, or until SIGINT or SIGTERM comes.

    Raises: ExporterError: there is nothing to see; the text says why.
    """
    if url and settings.replay:
        raise ConfigError("--url and --replay: give one of them")
    logging.getLogger("exporter.pipeline.ledger_state").setLevel(logging.ERROR)  # shown in the rows
    is_local = not url and not settings.replay
    facts: ProcessFacts = LocalProcesses() if is_local else RecordedProcesses()

    def rows_of(view: View) -> Machine:
        return machine(view, facts, shows_commands=shows_commands)

    stopped = threading.Event()
    with set_by_signals(stopped), _views(settings, url, stopped, is_watching=is_watching) as read:
        view = read()
        if not is_watching:
            _print(rows_of(view), is_json=is_json)
            return
        with _screen(is_json=is_json) as show:
            shown_unix_ns = None
            while True:
                if view.ts_unix_ns != shown_unix_ns:
                    show(rows_of(view))
                    shown_unix_ns = view.ts_unix_ns
                if stopped.wait(max(view.interval_s, SHORTEST_PAUSE_S)):
                    return
                try:
                    view = read()
                except ExporterError as exc:
                    log.warning("%s; asking again", exc)


@contextmanager
def _views(
    settings: Settings, url: str | None, stopped: threading.Event, *, is_watching: bool
) -> Iterator[Callable[[], View]]:
    """How to read the newest View, from wherever the arguments say."""
    if url:
        yield DaemonView(url).read
        return
    if settings.replay and not is_watching:
        running: app.App | app.FrozenApp = app.build_unpaced(settings, settings.replay)
    else:
        running = app.build(settings)
    first = threading.Event()

    def look(view: View, _readings: object) -> None:
        if _is_complete(view, settings):
            first.set()

    unsubscribe = running.pipeline.subscribe(look)
    running.start()
    try:
        _wait(first, stopped, SystemClock())
        unsubscribe()

        def read() -> View:
            view = running.pipeline.view
            if view is None or not view.devices:
                raise ExporterError(
                    f"saw no GPU{_down(view)}; run it where the GPUs are, ask a daemon with --url,"
                    " or look at a recording with --replay"
                )
            return view

        yield read
    finally:
        running.stop()


def _is_complete(view: View, settings: Settings) -> bool:
    """Whether the first View can be shown: with GPUs, and engines where somebody tells of them."""
    tells_of_engines = settings.replay is None and (settings.trace_paths or settings.engine_urls)
    return bool(view.devices and (view.engines or not tells_of_engines))


def _wait(first: threading.Event, stopped: threading.Event, clock: Clock) -> None:
    deadline_s = clock.monotonic() + FIRST_VIEW_TIMEOUT_S
    while not first.wait(SHORTEST_PAUSE_S):
        if stopped.is_set() or clock.monotonic() > deadline_s:
            return


def _down(view: View | None) -> str:
    reasons = [
        f"{source.name}: {', '.join(sorted(source.errors)) or 'gives nothing'}"
        for source in (view.sources if view else ())
        if not source.is_up
    ]
    return f" ({'; '.join(reasons)})" if reasons else ""


def _print(rows: Machine, *, is_json: bool) -> None:
    if is_json:
        text = msgspec.json.format(msgspec.json.encode(rows), indent=2)
        sys.stdout.write(text.decode() + "\n")
    else:
        from exporter.commands.processes_text import table
        from exporter.commands.terminal import console

        console().print(table(rows))


@contextmanager
def _screen(*, is_json: bool) -> Iterator[Callable[[Machine], None]]:
    """How to show one moment after the other: in place on a terminal, else below each other."""
    if is_json:

        def write(rows: Machine) -> None:
            sys.stdout.write(msgspec.json.encode(rows).decode() + "\n")
            sys.stdout.flush()

        yield write
        return
    from rich.live import Live

    from exporter.commands.processes_text import table
    from exporter.commands.terminal import console

    out = console()
    if not out.is_terminal:

        def append(rows: Machine) -> None:
            out.print(table(rows))
            sys.stdout.flush()

        yield append
        return
    with Live(console=out, auto_refresh=False) as live:
        yield lambda rows: live.update(table(rows), refresh=True)
