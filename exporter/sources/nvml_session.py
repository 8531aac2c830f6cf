"""NVML as the threads of this process share it: who has it open and when all let go; no figures.

NVML counts its users and starts anew only when the last one has left. So one source opens the GPUs
and hands their handles to the others, its guests; each guest is a user of its own, which keeps the
library open under a call that takes long, and leaves when the handles are withdrawn.
"""

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pynvml

from exporter.sources.nvml_library import error_reason, shut_down

Handle = Any  # pynvml's nvmlDevice_t
Handles = Mapping[str, Handle]
"""By UUID, of the GPUs that answered when NVML was opened."""


class NvmlSession:
    """What the source that opens NVML tells its guests; any thread may ask.

    `handles`: None while no GPU is open and guests must let go. `is_released`: the operator wants
    all handles let go; set from outside.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._guests: set[Guest] = set()
        self.handles: Handles | None = None
        self.is_released = False

    @property
    def has_guests(self) -> bool:
        """Whether some guest still uses NVML."""
        return bool(self._guests)

    def toggle_release(self) -> None:
        """Have all handles let go, or taken up again."""
        self.is_released = not self.is_released

    def publish(self, handles: Handles | None) -> None:
        """Hand out the handles of a new initialisation, or withdraw them."""
        with self._lock:
            self.handles = handles

    def enter(self, guest: "Guest", handles: Handles) -> bool:
        """Count a guest, unless the handles were withdrawn meanwhile."""
        with self._lock:
            if self.handles is not handles:
                return False
            self._guests.add(guest)
            return True

    def leave(self, guest: "Guest") -> None:
        """The guest has let go."""
        with self._lock:
            self._guests.discard(guest)


class Guest:
    """One thread's use of the handles that another one opened.

    Args: errors: counts what keeps it out, by NVML error; forget: lets go of what was made with the
        handles, before NVML is shut down under it.
    """

    def __init__(
        self, session: NvmlSession, errors: Counter[str], forget: Callable[[], None]
    ) -> None:
        self._session = session
        self._errors = errors
        self._forget = forget
        self._handles: Handles | None = None

    def handles(self) -> Handles | None:
        """The handles in force, the same mapping until NVML is opened anew; None when none are."""
        current = self._session.handles
        if self._handles is not None and self._handles is not current:
            self.leave()
        if self._handles is None and current is not None and self._session.enter(self, current):
            try:
                pynvml.nvmlInit()
            except pynvml.NVMLError as error:
                self._errors[error_reason(error)] += 1
                self._session.leave(self)
            else:
                self._handles = current
        return self._handles

    def leave(self) -> None:
        """Let go; nothing happens to a guest that is not in."""
        if self._handles is not None:
            self._handles = None
            self._forget()
            shut_down()
            self._session.leave(self)
