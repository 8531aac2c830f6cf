"""A process of a built image: its user, environment and working directory, and a read-only tree."""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.daemon import Daemon
from tests.deploy.image import Image

PORT = "10411"
"""The exporter's port; tests take a free one instead."""


def free_port() -> str:
    """A port of 127.0.0.1 that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


def run(image: Image, command: list[str]) -> subprocess.CompletedProcess[str]:
    """A process of the image, until it ends."""
    return subprocess.run(
        _argv(image, command),
        cwd=image.here(image.working_directory),
        env=image.variables(),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@contextmanager
def running(image: Image, arguments: list[str]) -> Iterator[Daemon]:
    """The image's entry point with these arguments, until the block ends."""
    process = subprocess.Popen(
        _argv(image, [*image.entrypoint, *arguments]),
        cwd=image.here(image.working_directory),
        env=image.variables(),
        stderr=subprocess.PIPE,
        text=True,
    )
    daemon = Daemon(process)
    try:
        yield daemon
    finally:
        daemon.close()


def _argv(image: Image, command: list[str]) -> list[str]:
    """No file may grow; an ordinary user who runs the tests stays itself.

    Programs are looked up in the caller's PATH, but by `env` in the image's.
    """
    user, group = image.user.split(":")
    become = ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", "--no-new-privs"]
    drop = ["--inh-caps=-all", "--bounding-set=-all"]
    prefix = [*become, *drop] if os.geteuid() == 0 else []
    return [*prefix, "prlimit", "--fsize=0", "env", *map(image.here, command)]
