"""The thread that encodes records and appends them to one trace file; it asks its source for more.

Whatever happens to the disk, the engine's threads only ever put a record on a bounded queue.
"""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Sequence
from multiprocessing.util import Finalize
from queue import Empty, SimpleQueue
from typing import Protocol

import msgspec

from exporter.plugin.trace_file import TraceFile
from exporter.records.trace import EngineRecord, TraceRecord

TICK_S = 0.25
FACTS_INTERVAL_S = 30.0
QUEUE_RECORDS = 1024
LEAST_BACK_OFF_S = 1.0
LONGEST_BACK_OFF_S = 60.0
CLOSE_TIMEOUT_S = 1.0
PAUSE_FILE = "pause"
FACTS_ROOM_BYTES = 4096

_log = logging.getLogger(__name__)


class RecordSource(Protocol):
    """What one trace file tells of; called from the writer's thread only."""

    @property
    def is_gone(self) -> bool:
        """The object that was watched has been deleted: write no more."""
        ...

    def set_paused(self, is_paused: bool) -> None:
        """Stop or resume sampling."""
        ...

    def tick(self) -> Sequence[TraceRecord]:
        """Records that are due now; called every TICK_S unless paused."""
        ...

    def last(self) -> Sequence[TraceRecord]:
        """Records with which the file is to end; called once, when the process exits."""
        ...

    def facts(self, writer_errors: int, dropped_records: int) -> EngineRecord:
        """Facts and health, with the writer's own counts added."""
        ...

    def take_status_change(self) -> bool:
        """True once after the health has changed: it is then written at once."""
        ...


class TraceWriter:
    """Owns one file and one daemon thread. Create and start it in the process that is to write.

    `errors`: failures to encode or write; `dropped`: records lost to them or to a full queue.
    """

    def __init__(self, file: TraceFile, source: RecordSource) -> None:
        self.errors = 0
        self.dropped = 0
        self._file = file
        self._source = source
        self._pause_path = file.path.with_name(PAUSE_FILE)
        self._queue: SimpleQueue[TraceRecord | None] = SimpleQueue()
        self._encoder = msgspec.json.Encoder()
        self._stopping = threading.Event()
        self._is_paused = False
        self._facts_due_s = 0.0
        self._retry_at_s = 0.0
        self._back_off_s = 0.0
        self._thread = threading.Thread(
            target=self._run, name=f"vllm-memory-trace-{file.path.name}", daemon=True
        )

    def start(self) -> None:
        """Start the thread, and have it flushed when the process exits.

        multiprocessing's finalizers run in spawned, forked and main processes alike; atexit's do
        not run in forked ones.
        """
        self._at_exit = Finalize(None, self.close, exitpriority=0)
        self._thread.start()

    def put(self, record: TraceRecord) -> None:
        """Hand over a record without ever waiting; drops and counts it when the queue is full."""
        if self._queue.qsize() >= QUEUE_RECORDS:
            self.dropped += 1
        else:
            self._queue.put(record)

    def close(self) -> None:
        """Write what is queued and end the thread; gives up after CLOSE_TIMEOUT_S."""
        self._stopping.set()
        self._queue.put(None)
        self._thread.join(CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        while not self._stopping.is_set() and not self._source.is_gone:
            try:
                self._service(self._collect(TICK_S))
            except Exception as exc:
                self._failed(exc)
        with contextlib.suppress(Exception):
            self._retry_at_s = 0.0  # whatever went wrong before, try once more
            records = self._collect(0)
            if not self._is_paused:
                records.extend(self._source.last())
            self._write(records)
            self._file.close()
        self._at_exit.cancel()

    def _collect(self, timeout_s: float) -> list[TraceRecord]:
        """All queued records, after waiting up to `timeout_s` for the first."""
        records = []
        try:
            record = self._queue.get(timeout=timeout_s) if timeout_s else self._queue.get_nowait()
            while True:
                if record is not None:
                    records.append(record)
                record = self._queue.get_nowait()
        except Empty:
            return records

    def _service(self, records: list[TraceRecord]) -> None:
        is_paused = os.path.exists(self._pause_path)  # Path.exists would raise on EACCES
        if is_paused != self._is_paused:
            self._is_paused = is_paused
            self._source.set_paused(is_paused)
        if not is_paused:
            records.extend(self._source.tick())
        self._write(records)

    def _write(self, records: Sequence[TraceRecord]) -> None:
        now = time.monotonic()
        if now < self._retry_at_s:
            self.dropped += len(records)
            return
        is_due = self._source.take_status_change() or now >= self._facts_due_s
        if not records and not is_due:
            return
        try:
            lines = self._encoder.encode_lines(records)
            is_first = self._file.prepare(len(lines) + FACTS_ROOM_BYTES)
            if is_first or is_due:
                lines = self._facts_line() + lines
            self._file.append(lines)
            if is_due:
                self._facts_due_s = now + FACTS_INTERVAL_S
                self._file.tidy()
        except Exception:
            self.dropped += len(records)
            self._facts_due_s = 0.0
            raise
        if self._back_off_s:
            _log.warning("the memory trace is written to %s again", self._file.path)
        self._back_off_s = self._retry_at_s = 0.0

    def _facts_line(self) -> bytes:
        return self._encoder.encode(self._source.facts(self.errors, self.dropped)) + b"\n"

    def _failed(self, exc: Exception) -> None:
        self.errors += 1
        if not self._back_off_s:
            _log.warning("the memory trace cannot be written to %s: %r", self._file.path, exc)
        self._back_off_s = min(max(LEAST_BACK_OFF_S, self._back_off_s * 2), LONGEST_BACK_OFF_S)
        self._retry_at_s = time.monotonic() + self._back_off_s
        with contextlib.suppress(OSError):
            self._file.close()
