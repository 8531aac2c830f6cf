"""Fixtures for every test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fake_nvml import build
from tests.fake_nvml.loading import FakeNvml, loaded
from tests.programs import require_program


@pytest.fixture(scope="session")
def fake_nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in for libnvidia-ml.so.1 with all its functions."""
    require_program("gcc")
    return build(tmp_path_factory.mktemp("fake_nvml"))


@pytest.fixture
def fake_nvml(
    fake_nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FakeNvml]:
    """The stand-in loaded for one test, without a GPU until `play` says otherwise."""
    with loaded(fake_nvml_library, tmp_path, monkeypatch) as fake:
        yield fake
