"""The page of known faults names tests that are there."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs/reliability.md").read_text()
ROWS = re.findall(r"^\| ([A-D]\d+) .* \| (.*) \|$", PAGE, re.MULTILINE)


KINDS = {
    "A": (1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 13, 14, 17, 19, 20),
    "B": (1, 2, 3, 4, 6, 8, 10, 12, 13, 15, 18, 19, 21, 23),
    "C": (1, 2, 3, 6, 7, 8, 10),
    "D": (1, 2, 4, 5, 6, 7, 8, 9, 10),
}


def test_every_entry_stands_there_once() -> None:
    entries = [entry for entry, _tests in ROWS]
    assert entries == [f"{kind}{number}" for kind, numbers in KINDS.items() for number in numbers]


@pytest.mark.parametrize(("entry", "tests"), ROWS, ids=[entry for entry, _ in ROWS])
def test_an_entry_names_files_that_have_its_tests(entry: str, tests: str) -> None:
    files = [TESTS / name for name in re.findall(r"\w+/test_\w+\.py", tests)]
    assert files or "cannot apply" in tests
    texts = [path.read_text() for path in files]
    if "`test_" in tests:
        assert f"`test_{entry.lower()}_…`" in tests
        assert all(f"def test_{entry.lower()}_" in text for text in texts)
