"""The trace source: follows all trace files and hands over their records; it judges no record."""

import logging
import os
from collections import Counter, OrderedDict
from collections.abc import Sequence, Set
from pathlib import Path

from exporter.clock import Clock
from exporter.errors import SourceUnavailable
from exporter.records.trace import TraceReading, TraceRecord
from exporter.sources.line_tail import MAX_BACKLOG_BYTES, FileUnreadable, LineTail, Position
from exporter.sources.lines import Losses
from exporter.sources.trace_files import TraceFiles, find_trace_files, identity_at
from exporter.sources.trace_lines import OUTCOMES, LineOrigin, Outcome, ParsedLines, parse_lines

logger = logging.getLogger(__name__)

RESCAN_INTERVAL_S = 1.0
MAX_READ_BYTES = 32 * 2**20  # in one read of all files together
MAX_LEFT = 256  # files read before that are remembered, with up to 1 KiB of each
_Counts = tuple[dict[str, int], int, int]

_GOOD: frozenset[Outcome] = frozenset(("accepted", "ignored"))
_OF_ANOTHER_VERSION: frozenset[Outcome] = frozenset(("unknown_version", "unknown_type"))
_VERSIONS_FIX = "; the plugin is of another version: update the older one, exporter or plugin"

_FIXES = {
    "permission_denied": "let this user read it",
    "not_a_regular_file": "name trace files, directories of them, or a glob pattern",
    "own_log": "let this program log elsewhere, or name another file or pattern",
    "too_many_open_files": "raise the limit of open files (ulimit -n)",
}


class TraceSource:
    """Reads the trace that vLLM's plugin writes, and bare page tables and stats lines in logs.

    `errors` counts, by reason, reads of files that failed while others went on, files beyond the
    limit at each look (``too_many_files``), and void groups (``invalid_`` and the field's name).

    Args:
        paths: files, directories and glob patterns; looked at again every second, so nothing need
            exist yet. Of files found at the first look only the last 64 KiB are read.
        interval_s: how often the runner is to read.
        clock: for the arrival time of bare and log lines and for when to look again.
    """

    name = "trace"

    def __init__(self, paths: Sequence[str], interval_s: float, clock: Clock) -> None:
        self.interval_s = interval_s
        self.errors: Counter[str] = Counter()
        self._paths = tuple(paths)
        self._looked_at: tuple[str, ...] | None = None
        self._left: OrderedDict[tuple[int, int], Position] = OrderedDict()
        self._clock = clock
        self._losses = Losses()
        self._outcomes: Counter[str] = Counter(dict.fromkeys(OUTCOMES, 0))
        self._files: dict[str, _TraceFile] = {}
        self._found = TraceFiles([], frozenset(), [])
        self._rescan_at_s = 0.0
        self._told_failures: Set[str] = frozenset()
        self._counts_told: _Counts | None = None

    def read(self) -> TraceReading | None:
        """What is new in all files; None when no line came and nothing else changed.

        Raises: SourceUnavailable: there is no file, or not one that can be read.
        """
        failures = self._rescan_if_due()
        records: list[TraceRecord] = []
        failed_files = 0
        share_bytes = MAX_READ_BYTES // max(1, len(self._files))
        max_backlog_bytes = min(MAX_BACKLOG_BYTES, share_bytes)
        for file in self._files.values():
            try:
                records += self._read_file(file, max_backlog_bytes)
            except FileUnreadable as exc:
                file.note_problem(exc)
                failures.append(exc)
                failed_files += 1
        if failed_files == len(self._files):
            self._counts_told = None
            raise self._unavailable(failures or self._found.failures)
        self.errors.update(failure.reason for failure in failures)
        self._tell(self._found.failures)
        return self._reading(records)

    def follow(self, paths: Sequence[str]) -> None:
        """Follow these paths from the next read on; any thread may call it.

        Files under both the former and these paths are read on where they are.
        """
        self._paths = tuple(paths)

    def close(self) -> None:
        """Let go of all files; a read after it goes on where they were left."""
        for path in list(self._files):
            self._let_go(path)
        self._looked_at = None

    def _read_file(self, file: "_TraceFile", max_backlog_bytes: int) -> list[TraceRecord]:
        new = file.tail.poll(max_backlog_bytes)
        file.note_readable()
        if not new.lines:
            return []
        now_unix_ns = self._clock.unix_ns()
        written_unix_ns = now_unix_ns if new.written_unix_ns is None else new.written_unix_ns
        ts_unix_ns = max(0, min(written_unix_ns, now_unix_ns))
        parsed = parse_lines(new.lines, LineOrigin(file.replica, ts_unix_ns))
        self._outcomes.update(parsed.outcomes)
        for field, count in parsed.void_fields.items():
            self.errors[f"invalid_{field}"] += count
        file.note_lines(parsed)
        return parsed.records if new.written_unix_ns is None else _newest_bare(parsed.records)

    def _reading(self, records: list[TraceRecord]) -> TraceReading | None:
        lines = {
            **self._outcomes,
            "oversized": self._losses.oversized_lines,
            "invalid_utf8": self._losses.invalid_utf8_lines,
        }
        dropped_bytes = self._losses.dropped_bytes
        files = sum(file.tail.is_open for file in self._files.values())
        counts = (lines, dropped_bytes, files)
        if not records and counts == self._counts_told:
            return None
        self._counts_told = counts
        return TraceReading(
            records=tuple(records), lines=lines, dropped_bytes=dropped_bytes, files=files
        )

    def _rescan_if_due(self) -> list[FileUnreadable]:
        """Look at the paths again once a second, without files at each read.

        Returns: the directories that failed just now.
        """
        now_s, paths = self._clock.monotonic(), self._paths
        is_first = self._looked_at != paths
        if not is_first and self._files and now_s < self._rescan_at_s:
            return []
        was_passed_over = self._found.passed_over
        self._looked_at = paths
        self._rescan_at_s = now_s + RESCAN_INTERVAL_S
        self._found = find_trace_files(paths)
        for file in self._files.values():
            self._remember(file.tail.left)
        open_files = {file.tail.identity for file in self._files.values()} - {None}
        for path in self._found.paths:
            identity = identity_at(path)
            if path not in self._files and identity not in open_files:  # else renamed just now
                self._files[path] = _TraceFile(
                    path,
                    self._losses,
                    skips_history=is_first or path in was_passed_over,
                    resume=self._left.get(identity) if identity else None,
                )
        for path in self._files.keys() - set(self._found.paths):
            is_deleted = path not in self._found.passed_over and not is_first
            if not (is_deleted and self._files[path].tail.is_open):  # it is read to its end first
                self._let_go(path)
        if self._found.passed_over:
            self.errors["too_many_files"] += len(self._found.passed_over)
        return list(self._found.failures)

    def _tell(self, failures: Sequence[FileUnreadable]) -> None:
        """Say once of each path that cannot be followed."""
        now = {str(failure): failure for failure in failures}
        for text in now.keys() - self._told_failures:
            logger.warning("not followed: %s; %s", text, _FIXES.get(now[text].reason, "look there"))
        self._told_failures = now.keys()

    def _let_go(self, path: str) -> None:
        tail = self._files.pop(path).tail
        tail.close()
        self._remember(tail.left)

    def _remember(self, left: Position | None) -> None:
        """So that a file that was renamed, or is followed again later, is not read twice."""
        if left is not None:
            self._left[left.identity] = left
            self._left.move_to_end(left.identity)
        while len(self._left) > MAX_LEFT:
            self._left.popitem(last=False)

    def _unavailable(self, failures: Sequence[FileUnreadable]) -> SourceUnavailable:
        if failures:
            reason = failures[0].reason
            fix = _FIXES.get(reason, "")
            return SourceUnavailable(reason, str(failures[0]), fix, backs_off=False)
        return SourceUnavailable(
            "no_trace_files",
            f"no trace file under {', '.join(self._paths) or 'no path at all'}",
            "start vLLM with the plugin and VLLM_MEMORY_TRACE_DIR, or correct --trace.path",
            backs_off=False,
        )


class _TraceFile:
    """One followed file, and what the log already says about it."""

    def __init__(
        self, path: str, losses: Losses, *, skips_history: bool, resume: Position | None
    ) -> None:
        self.tail = LineTail(path, losses, skips_history=skips_history, resume=resume)
        self.replica = os.fsencode(Path(path).stem).decode(errors="replace")
        self._problem: str | None = None
        self._told: set[Outcome] = set(_GOOD)

    def note_problem(self, failure: FileUnreadable) -> None:
        if failure.reason != self._problem:
            logger.warning("trace file not readable: %s", failure)
        self._problem = failure.reason

    def note_readable(self) -> None:
        if self._problem is not None:
            logger.info("trace file readable again: %s", self.tail.path)
        self._problem = None

    def note_lines(self, parsed: ParsedLines) -> None:
        """Say once of each fault that a file has lines of which something or all cannot be used."""
        faults = {outcome for outcome, count in parsed.outcomes.items() if count} - self._told
        if not faults:
            return
        self._told |= faults
        logger.warning(
            "%s has faulty lines: %s%s; from now on they are only counted%s",
            self.tail.path,
            ", ".join(sorted(faults)),
            "".join(f", invalid {field}" for field in sorted(parsed.void_fields)),
            _VERSIONS_FIX if faults & _OF_ANOTHER_VERSION else "",
        )


def _newest_bare(records: list[TraceRecord]) -> list[TraceRecord]:
    """All records that tell their own time; of those that do not, the last one of each engine.

    In a file that was there before, bare and log lines are as old as its last line at least, and
    of all but that one nobody knows by how much more.
    """
    last = {_teller(record): record for record in records if record.pid is None}
    return [
        record for record in records if record.pid is not None or record is last[_teller(record)]
    ]


def _teller(record: TraceRecord) -> tuple[str, str, str]:
    return type(record).__name__, record.origin, record.engine
