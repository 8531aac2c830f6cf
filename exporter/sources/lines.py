"""Bytes to lines: cuts a stream of blocks at newlines; it owns no file and knows no meaning."""

MAX_LINE_BYTES = 2**20


class Losses:
    """What could not be handed on, cumulative; one object can be shared by many streams.

    `dropped_bytes` counts every byte that was in no delivered line, newlines of dropped lines
    included; `oversized_lines` were longer than `MAX_LINE_BYTES`; `invalid_utf8_lines` were not
    UTF-8.
    """

    def __init__(self) -> None:
        self.dropped_bytes = 0
        self.oversized_lines = 0
        self.invalid_utf8_lines = 0


class LineSplitter:
    """Cuts the blocks of one stream into lines and keeps the unfinished last one.

    Every byte fed is delivered in a line, is the newline after one, is pending, or is counted in
    `losses`. Delivered lines are valid UTF-8 of at most `MAX_LINE_BYTES`, without their newline; a
    carriage return, a byte order mark and NUL bytes are left to whoever reads the meaning.
    """

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._pending = b""
        self._is_discarding = False

    def feed(self, block: bytes) -> list[bytes]:
        """The lines that `block` completes, oldest first."""
        if self._is_discarding:
            block = self._after_discarded_line(block)
        if self._pending:
            block = self._pending + block
        lines = block.split(b"\n")
        self._pending = lines.pop()
        if len(block) > MAX_LINE_BYTES:
            lines = self._without_oversized(lines)
        if not block.isascii():
            lines = self._without_invalid_utf8(lines)
        return lines

    def discard_line(self) -> None:
        """Drop what follows up to the next newline: the stream goes on in the middle of a line."""
        self._is_discarding = True

    def reset(self) -> None:
        """Begin at a new line: what is pending will never be completed and counts as dropped."""
        self._losses.dropped_bytes += len(self._pending)
        self._pending = b""
        self._is_discarding = False

    def _after_discarded_line(self, block: bytes) -> bytes:
        newline = block.find(b"\n")
        self._is_discarding = newline < 0
        dropped_bytes = len(block) if newline < 0 else newline + 1
        self._losses.dropped_bytes += dropped_bytes
        return block[dropped_bytes:]

    def _without_oversized(self, lines: list[bytes]) -> list[bytes]:
        if len(self._pending) > MAX_LINE_BYTES:
            self._losses.oversized_lines += 1
            self.reset()
            self.discard_line()
        kept = [line for line in lines if len(line) <= MAX_LINE_BYTES]
        self._losses.oversized_lines += len(lines) - len(kept)
        self._count_dropped(lines, kept)
        return kept

    def _without_invalid_utf8(self, lines: list[bytes]) -> list[bytes]:
        kept = [line for line in lines if _is_utf8(line)]
        self._losses.invalid_utf8_lines += len(lines) - len(kept)
        self._count_dropped(lines, kept)
        return kept

    def _count_dropped(self, lines: list[bytes], kept: list[bytes]) -> None:
        newline_bytes = len(lines) - len(kept)
        self._losses.dropped_bytes += sum(map(len, lines)) - sum(map(len, kept)) + newline_bytes


def _is_utf8(line: bytes) -> bool:
    if line.isascii():
        return True
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
