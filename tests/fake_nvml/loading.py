"""Loads the stand-in library into this process, under the real pynvml."""

import _ctypes
import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pynvml
import pytest

from tests.fake_nvml import SCENARIO_VARIABLE, Scenario


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

    def users(self) -> int:
        """nvmlInit calls without their nvmlShutdown."""
        return int(self._library.fakeNvmlUsers())

    def event_sets(self) -> int:
        """Event sets that were not freed."""
        return int(self._library.fakeNvmlEventSets())

    def gpm_samples(self) -> int:
        """GPM samples that were not freed."""
        return int(self._library.fakeNvmlGpmSamples())


@contextmanager
def loaded(library: Path, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeNvml]:
    """The library in this process, found by its soname when pynvml asks for it; no GPU yet.

    pynvml keeps the library, its functions and its users in globals: all are put back at the end.
    """
    scenario = directory / "scenario"
    Scenario().write(scenario)
    monkeypatch.setenv(SCENARIO_VARIABLE, str(scenario))
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
