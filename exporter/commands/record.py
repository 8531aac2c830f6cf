"""`record`: a subscriber of the pipeline that writes one JSON Lines file."""

import errno
import logging
import os
import sys
import threading
from collections.abc import Sequence
from io import FileIO
from pathlib import Path

from exporter import __version__, app
from exporter.commands.stop_signals import set_by_signals
from exporter.errors import RecordingError
from exporter.records.codec import RECORDING_VERSION, RecordingHeader, RecordingLine, encode_line
from exporter.records.device import DeviceReading
from exporter.records.source import Reading
from exporter.records.trace import TraceReading
from exporter.records.view import View
from exporter.settings import Settings, read_duration

PROGRESS_INTERVAL_S = 0.5
LONGEST_S = 24 * 3600.0

log = logging.getLogger(__name__)


class Recorder:
    """Appends each tick's readings to a file: what else came, then the device reading.

    A tick without a device reading gets an empty one, so that the recording keeps its pace. When
    the file cannot be written `failure` says why and `stopped` is set.
    """

    def __init__(self, file: FileIO, header: RecordingHeader) -> None:
        self._file = file
        self.lines = 0
        self.size_bytes = 0
        self.failure: OSError | None = None
        self.stopped = threading.Event()
        self._interval_s = header.interval_s
        self._write([header])

    def __call__(self, view: View, readings: tuple[Reading, ...]) -> None:
        """Take one tick; see `Pipeline.subscribe`."""
        records: list[RecordingLine] = []
        devices: list[RecordingLine] = []
        for reading in readings:
            if isinstance(reading, DeviceReading):
                devices.append(reading)
            elif isinstance(reading, TraceReading):
                records.extend(reading.records)
            else:
                records.append(reading)
        nothing = DeviceReading(ts_unix_ns=view.ts_unix_ns, interval_s=self._interval_s, devices=())
        self._write(records + (devices or [nothing]))

    def _write(self, lines: Sequence[RecordingLine]) -> None:
        if self.failure is not None:
            return
        text = b"".join(encode_line(line) for line in lines)
        try:
            if self._file.write(text) < len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as exc:
            self.failure = exc
            self.stopped.set()
        else:
            self.lines += len(lines)
            self.size_bytes += len(text)


def run(settings: Settings, output: str, duration: str | None) -> None:
    """Record until the duration is over, or SIGINT or SIGTERM comes.

    Raises: ConfigError: the duration is none. RecordingError: the file exists or cannot be written.
    """
    seconds = read_duration("--for", duration, 0.1, LONGEST_S) if duration else None
    running = app.build(settings)
    path = Path(output)
    try:
        with path.open("xb", buffering=0) as file:
            header = RecordingHeader(
                v=RECORDING_VERSION,
                name=path.name,
                started_unix_ns=running.clock.unix_ns(),
                product_version=__version__,
                interval_s=running.pipeline.interval_s,
            )
            recorder = Recorder(file, header)
            running.pipeline.subscribe(recorder)
            running.start()
            try:
                with set_by_signals(recorder.stopped):
                    _wait(recorder, seconds)
            finally:
                running.stop()
        if recorder.failure is not None:
            raise recorder.failure
    except FileExistsError as exc:
        raise RecordingError(f"--output {path}: exists; choose a new name") from exc
    except OSError as exc:
        raise RecordingError(f"--output {path}: {exc.strerror}") from exc
    log.info("wrote %s: %d lines, %d bytes", path, recorder.lines, recorder.size_bytes)


def _wait(recorder: Recorder, seconds: float | None) -> None:
    """Until stopped or the time is over; on a terminal with a progress bar."""
    if not sys.stderr.isatty():
        recorder.stopped.wait(seconds)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("recording"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[size]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=seconds, size="")
        elapsed_s = 0.0
        while seconds is None or elapsed_s < seconds:
            step_s = min(PROGRESS_INTERVAL_S, (seconds or float("inf")) - elapsed_s)
            if recorder.stopped.wait(step_s):
                return
            elapsed_s += step_s
            size = f"{recorder.lines} lines, {recorder.size_bytes / 1e6:.1f} MB"
            progress.update(task, completed=elapsed_s, size=size)
