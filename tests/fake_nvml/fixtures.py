"""Pytest fixtures: the library built once, and loaded into this process under the real pynvml.

A test module asks for them with ``pytest_plugins = ("tests.fake_nvml.fixtures",)``.
"""

import _ctypes
import ctypes
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pynvml
import pytest

from tests.fake_nvml import SCENARIO_VARIABLE, Scenario, build


class FakeNvml:
    """The loaded library: plays scenarios and counts calls."""

    def __init__(self, library: ctypes.CDLL, scenario: Path) -> None:
        self._library = library
        self._scenario = scenario

    def play(self, scenario: Scenario) -> None:
        """Answer from this scenario, from the next call on."""
        scenario.write(self._scenario)

    def calls(self, function: str, gpu: int = -1) -> int:
        """Calls of a function about a GPU (−1: about the system) since the scenario was read."""
        return int(self._library.fakeNvmlCalls(gpu, function.encode()))


@contextmanager
def loaded(library: Path, scenario: Path) -> Iterator[FakeNvml]:
    """The library in this process, found by its soname when pynvml asks for it.

    pynvml keeps the library, its functions and its users in globals: all are put back at the end.
    """
    handle = ctypes.CDLL(str(library))
    try:
        yield FakeNvml(handle, scenario)
    finally:
        with suppress(pynvml.NVMLError):
            while True:
                pynvml.nvmlShutdown()
        pynvml._nvmlGetFunctionPointer_cache.clear()
        pynvml._nvmlLib_refcount = 0
        if pynvml.nvmlLib is not None:
            _ctypes.dlclose(pynvml.nvmlLib._handle)
            pynvml.nvmlLib = None
        _ctypes.dlclose(handle._handle)


def require_gcc() -> None:
    """Skip without gcc; in CI that is a failure."""
    if shutil.which("gcc") is None:
        message = "needs gcc to build the stand-in for libnvidia-ml"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)


@pytest.fixture(scope="session")
def fake_nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library with all its functions."""
    require_gcc()
    return build(tmp_path_factory.mktemp("fake_nvml"))


@pytest.fixture
def fake_nvml(
    fake_nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FakeNvml]:
    """The library loaded for one test, without a GPU until `play` says otherwise."""
    with _playing(fake_nvml_library, tmp_path, monkeypatch) as fake:
        yield fake


@contextmanager
def _playing(library: Path, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeNvml]:
    scenario = directory / "scenario"
    Scenario().write(scenario)
    monkeypatch.setenv(SCENARIO_VARIABLE, str(scenario))
    with loaded(library, scenario) as fake:
        yield fake


@contextmanager
def fake_nvml_without(
    functions: Sequence[str], directory: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FakeNvml]:
    """As the fixture `fake_nvml`, of a library that lacks some functions."""
    require_gcc()
    with _playing(build(directory, functions), directory, monkeypatch) as fake:
        yield fake
