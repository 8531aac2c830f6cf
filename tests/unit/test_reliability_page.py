"""The page of known faults names tests that are there."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs/reliability.md").read_text()
ROWS = re.findall(r"^\| ([A-D]\d+) .* \| (.*) \|$", PAGE, re.MULTILINE)


def test_no_entry_stands_there_twice() -> None:
    entries = [entry for entry, _tests in ROWS]
    assert len(entries) > 10
    assert len(entries) == len(set(entries))


@pytest.mark.parametrize(("entry", "tests"), ROWS, ids=[entry for entry, _ in ROWS])
def test_an_entry_names_files_that_have_its_tests(entry: str, tests: str) -> None:
    files = [TESTS / name for name in re.findall(r"\w+/test_\w+\.py", tests)]
    assert files or "cannot apply" in tests
    texts = [path.read_text() for path in files]
    if "`test_" in tests:
        assert f"`test_{entry.lower()}_…`" in tests
        assert any(f"def test_{entry.lower()}_" in text for text in texts)
