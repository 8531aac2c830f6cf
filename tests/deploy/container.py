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


def run(
    image: Image, command: list[str], *, user: str = "", is_read_only: bool = True
) -> subprocess.CompletedProcess[str]:
    """A process of the image, until it ends; as its own user unless another is given."""
    return subprocess.run(
        _argv(image, command, user or image.user, is_read_only=is_read_only),
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
        _argv(image, [*image.entrypoint, *arguments], image.user, is_read_only=True),
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


def _argv(image: Image, command: list[str], user: str, *, is_read_only: bool) -> list[str]:
    """An ordinary user who runs the tests stays itself; read-only: no file may grow.

    Programs are looked up in the caller's PATH, but by `env` in the image's.
    """
    uid, gid = user.split(":")
    become = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--no-new-privs"]
    drop = ["--inh-caps=-all", "--bounding-set=-all"]
    prefix = [*become, *drop] if os.geteuid() == 0 else []
    limit = ["prlimit", "--fsize=0"] if is_read_only else []
    return [*prefix, *limit, "env", *map(image.here, command)]
