"""`doctor`: looks for a while, or through a recording, and says what is wrong and what to do."""

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from exporter import app
from exporter.analysis.diagnosis import History, advanced, diagnose
from exporter.commands.daemon_view import DaemonView
from exporter.commands.stop_signals import set_by_signals
from exporter.errors import ConfigError, ExporterError
from exporter.records.source import Reading
from exporter.records.view import View
from exporter.settings import Settings, read_duration

DEFAULT_LOOK_S = 30.0
LONGEST_LOOK_S = 24 * 3600.0
SHORTEST_POLL_S = 0.1
PROGRESS_INTERVAL_S = 0.5

Step = Callable[[], float]
"""Does something; returns the seconds until it is to be done again."""

log = logging.getLogger(__name__)


class Look:
    """Keeps what the Views of a look say; the same View twice counts once."""

    def __init__(self) -> None:
        self.history: History | None = None
        self._last_unix_ns = 0

    def take(self, view: View, _readings: tuple[Reading, ...] = ()) -> None:
        """Take a View; see `Pipeline.subscribe`."""
        if self.history is None or view.ts_unix_ns != self._last_unix_ns:
            self.history = advanced(self.history, view)
            self._last_unix_ns = view.ts_unix_ns


def run(settings: Settings, url: str | None, duration: str | None, *, is_json: bool) -> bool:
    """Print the diagnosis; returns whether nothing was found that should be watched or changed.

    Raises: ExporterError: it could not look, or there was nothing to see; the text says why.
    """
    if settings.replay and (url or duration):
        raise ConfigError("--replay looks at a whole recording: leave out --url and --for")
    seconds = (
        read_duration("--for", duration, SHORTEST_POLL_S, LONGEST_LOOK_S)
        if duration
        else DEFAULT_LOOK_S
    )
    logging.getLogger("exporter.pipeline.ledger_state").setLevel(logging.ERROR)  # told as findings
    if settings.replay:
        look = _at_recording(settings, settings.replay)
    elif url:
        look = _at_daemon(DaemonView(url), seconds)
    else:
        look = _at_this_machine(settings, seconds)
    history = look.history
    if history is None or not (history.devices or history.engines):
        raise ExporterError(_saw_nothing(history))
    diagnosis = diagnose(history)
    if is_json:
        text = msgspec.json.format(msgspec.json.encode(diagnosis), indent=2)
        sys.stdout.write(text.decode() + "\n")
    else:
        from exporter.commands.doctor_text import show

        show(diagnosis)
    return diagnosis.is_ok


def _at_recording(settings: Settings, replay: str) -> Look:
    look = Look()
    recorded = app.build_unpaced(settings, replay)
    recorded.pipeline.subscribe(look.take)
    recorded.start()
    return look


def _at_daemon(daemon: DaemonView, seconds: float) -> Look:
    """Raises: ExporterError: it does not answer at first; later it is asked again."""
    look = Look()
    first = daemon.read()
    look.take(first)
    poll_s = max(first.interval_s, SHORTEST_POLL_S)
    is_silent = False

    def poll() -> float:
        nonlocal is_silent
        try:
            look.take(daemon.read())
        except ExporterError as exc:
            if not is_silent:
                log.warning("%s; asking again", exc)
            is_silent = True
        else:
            is_silent = False
        return poll_s

    _for(seconds, poll)
    return look


def _at_this_machine(settings: Settings, seconds: float) -> Look:
    look = Look()
    running = app.build(settings)
    unsubscribe = running.pipeline.subscribe(look.take)
    running.start()
    try:
        _for(seconds, lambda: PROGRESS_INTERVAL_S)
        unsubscribe()
    finally:
        running.stop()
    return look


def _for(seconds: float, step: Step) -> None:
    """Step until the time is over or a signal comes; on a terminal with a progress bar."""
    stopped = threading.Event()
    left_s = seconds
    with set_by_signals(stopped), _progress(seconds) as show_elapsed:
        while left_s > 0:
            pause_s = min(left_s, step())
            if stopped.wait(pause_s):
                return
            left_s -= pause_s
            show_elapsed(seconds - left_s)


@contextmanager
def _progress(seconds: float) -> Iterator[Callable[[float], None]]:
    if not sys.stderr.isatty():
        yield lambda _elapsed_s: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("looking (Ctrl-C ends it early)"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=seconds)
        yield lambda elapsed_s: progress.update(task, completed=elapsed_s)


def _saw_nothing(history: History | None) -> str:
    reasons = [
        f"{source.name}: {', '.join(sorted(source.errors)) or 'gives nothing'}"
        for source in (history.sources if history else ())
        if not source.is_up
    ]
    seen = f" ({'; '.join(reasons)})" if reasons else ""
    return (
        f"saw neither a GPU nor an engine{seen}; run it where the GPUs are, give --trace.path or"
        " --engine.url, ask a daemon with --url, or look at a recording with --replay"
    )
