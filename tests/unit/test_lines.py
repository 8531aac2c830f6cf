import pytest

from exporter.sources.lines import MAX_LINE_BYTES, LineSplitter, Losses


def split(*blocks: bytes) -> tuple[list[bytes], Losses]:
    losses = Losses()
    splitter = LineSplitter(losses)
    return [line for block in blocks for line in splitter.feed(block)], losses


@pytest.mark.parametrize(
    ("blocks", "lines"),
    [
        pytest.param([b"a\nbc\n"], [b"a", b"bc"], id="whole lines"),
        pytest.param([b"a\nb", b"c\n"], [b"a", b"bc"], id="a line over two blocks"),
        pytest.param([b"a", b"b", b"c", b"\n"], [b"abc"], id="a line over four blocks"),
        pytest.param([b"a\nb"], [b"a"], id="the unfinished last line waits"),
        pytest.param([b"\n\na\n"], [b"", b"", b"a"], id="blank lines"),
        pytest.param([b""], [], id="nothing"),
        pytest.param([b"a\r\nb\r\n"], [b"a\r", b"b\r"], id="CRLF is left to the reader"),
        pytest.param([b"\xef\xbb\xbfa\n"], [b"\xef\xbb\xbfa"], id="a byte order mark too"),
        pytest.param([b"\0\0\0a\n"], [b"\0\0\0a"], id="a run of NULs too"),
        pytest.param([b"\xc3", b"\xa9\n"], ["é".encode()], id="a character over two blocks"),
        pytest.param([b"a" * MAX_LINE_BYTES + b"\n"], [b"a" * MAX_LINE_BYTES], id="1 MiB is kept"),
    ],
)
def test_lines_end_at_newlines_wherever_the_blocks_end(
    blocks: list[bytes], lines: list[bytes]
) -> None:
    delivered, losses = split(*blocks)

    assert delivered == lines
    assert losses.dropped_bytes == 0


@pytest.mark.parametrize(
    "blocks",
    [
        pytest.param([b"a\n" + b"x" * (MAX_LINE_BYTES + 1) + b"\nb\n"], id="in one block"),
        pytest.param([b"a\n" + b"x" * MAX_LINE_BYTES, b"x\nb\n"], id="completed by a later block"),
        pytest.param(
            [b"a\n" + b"x" * (MAX_LINE_BYTES - 5), b"x" * 6, b"\nb\n"], id="dropped before its end"
        ),
    ],
)
def test_a_line_over_the_cap_is_counted_and_the_next_one_delivered(blocks: list[bytes]) -> None:
    delivered, losses = split(*blocks)

    assert delivered == [b"a", b"b"]
    assert losses.oversized_lines == 1
    assert losses.dropped_bytes == MAX_LINE_BYTES + 2  # the line is one byte too long + newline


def test_an_endless_line_is_one_oversized_line_and_never_held_in_memory() -> None:
    losses = Losses()
    splitter = LineSplitter(losses)
    for _ in range(50):
        assert splitter.feed(b"x" * MAX_LINE_BYTES) == []

    assert losses.oversized_lines == 1
    assert losses.dropped_bytes == 50 * MAX_LINE_BYTES
    assert splitter.feed(b"tail\nok\n") == [b"ok"]
    assert losses.dropped_bytes == 50 * MAX_LINE_BYTES + 5


def test_a_line_that_is_not_utf8_is_counted_and_its_neighbours_delivered() -> None:
    delivered, losses = split("é\n".encode() + b"bad\xff\xfe\nok\n")

    assert delivered == ["é".encode(), b"ok"]
    assert losses.invalid_utf8_lines == 1
    assert losses.dropped_bytes == 6


def test_reset_counts_what_was_pending() -> None:
    losses = Losses()
    splitter = LineSplitter(losses)
    splitter.feed(b"a\nhalf")
    splitter.reset()

    assert splitter.feed(b"whole\n") == [b"whole"]
    assert losses.dropped_bytes == 4


def test_discarding_a_line_drops_and_counts_up_to_the_next_newline() -> None:
    losses = Losses()
    splitter = LineSplitter(losses)
    splitter.discard_line()

    assert splitter.feed(b"rest") == []
    assert splitter.feed(b" of it\nnext\n") == [b"next"]
    assert losses.dropped_bytes == 11
