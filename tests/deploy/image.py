"""A Dockerfile's own steps without an engine: each stage's filesystem is a directory.

The stage being built always lies at the same place and moves aside when it is done, so that paths
written into files stay right and what a later stage did not copy is not there. The base image is
this machine. Knows ARG, COPY, ENV, LABEL, RUN, USER, WORKDIR and what describes the container.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

from dockerfile_parse import DockerfileParser

STEP_TIMEOUT_S = 300.0


@dataclass
class Image:
    """The last stage: its directory and what a container of it would run with."""

    root: Path
    paths: re.Pattern[str]
    environment: dict[str, str]
    user: str = ""
    working_directory: str = "/"
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    healthcheck: list[str] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    ports: list[str] = field(default_factory=list)

    def here(self, text: str) -> str:
        """The text with the image's paths as they are on this machine."""
        return self.paths.sub(rf"{self.root}\g<0>", text)

    def variables(self) -> dict[str, str]:
        """The environment of its processes, with paths of this machine."""
        return {name: self.here(value) for name, value in self.environment.items()}

    def size_bytes(self) -> int:
        """What the image adds to its base: the bytes of all files."""
        files = (path for path in self.root.rglob("*") if path.is_file() and not path.is_symlink())
        return sum(path.stat().st_size for path in files)


def build(dockerfile: Path, context: Path, place: Path, images: Mapping[str, Path]) -> Image:
    """Do every step below `place`. Args: images: name of another image → its directory."""
    base_path = f"{_base_environment(place)}:{os.defpath}"
    arguments: dict[str, str] = {}
    done: dict[str, Path] = dict(images)
    image: Image | None = None
    stage = ""
    instructions = list(_instructions(dockerfile))
    paths = _paths_of(instructions)
    for name, value in instructions:
        if name == "FROM":
            if image is not None:
                done[stage] = _set_aside(image, stage)
            stage = value.partition(" AS ")[2] or "last"
            image = Image(place / "root", paths, {"PATH": base_path})
            image.root.mkdir()
        elif image is None:
            assert name == "ARG", f"{name} before FROM"
        elif name == "RUN":
            _run(image, value, arguments, done)
        elif name == "COPY":
            _copy(image, context, value, done)
        else:
            _describe(image, name, value, arguments)
        if name == "ARG":
            key, _, default = value.partition("=")
            arguments[key] = default
    assert image is not None, "no FROM"
    return image


def _instructions(dockerfile: Path) -> Iterator[tuple[str, str]]:
    with dockerfile.open("rb") as file:
        for line in DockerfileParser(fileobj=file).structure:
            if line["instruction"] != "COMMENT":
                yield line["instruction"], line["value"]


def _base_environment(place: Path) -> Path:
    """The base image's `python` and `pip`; a Python that any user may read, where there is one."""
    python = shutil.which("python3", path="/usr/local/bin:/usr/bin") or sys.executable
    directory = place / "base"
    subprocess.run([python, "-m", "venv", directory], check=True, timeout=STEP_TIMEOUT_S)
    return directory / "bin"


def _paths_of(instructions: list[tuple[str, str]]) -> re.Pattern[str]:
    """Matches absolute paths that belong to the image: those that COPY, WORKDIR and mounts name."""
    words = " ".join(
        value.replace("=", " ").replace(",", " ")
        for name, value in instructions
        if name in ("COPY", "WORKDIR", "RUN")
    ).split()
    tops = {word.split("/")[1] for word in words if re.fullmatch(r"(/[\w.*-]+)+", word)}
    return re.compile(rf"(?<![\w.*/-])/(?:{'|'.join(sorted(tops))})(?=[/\s:]|$)")


def _set_aside(image: Image, stage: str) -> Path:
    return image.root.rename(image.root.with_name(f"stage-{stage}"))


def _run(
    image: Image, value: str, arguments: Mapping[str, str], others: Mapping[str, Path]
) -> None:
    command = value
    while mount := re.match(r"--mount=(\S+)\s+", command):
        options = dict(option.split("=", 1) for option in mount[1].split(","))
        source = others[options["from"]] / options["source"].lstrip("/")
        shutil.copytree(source, Path(image.here(options["target"])))
        command = command[mount.end() :]
    subprocess.run(
        ["sh", "-ec", image.here(command)],
        cwd=image.here(image.working_directory),
        env={**os.environ, **arguments, **image.variables()},
        check=True,
        timeout=STEP_TIMEOUT_S,
    )


def _copy(image: Image, context: Path, value: str, stages: Mapping[str, Path]) -> None:
    *sources, destination = shlex.split(value)
    origin = context
    if sources[0].startswith("--from="):
        origin = stages[sources.pop(0).removeprefix("--from=")]
    target = Path(image.here(image.working_directory), image.here(destination))
    for source in sources:
        path = origin / source.lstrip("/")
        if path.is_dir():
            skip = shutil.ignore_patterns("__pycache__") if origin == context else None
            shutil.copytree(path, target, symlinks=True, ignore=skip, dirs_exist_ok=True)
        else:
            shutil.copy2(path, target)


def _describe(image: Image, name: str, value: str, arguments: Mapping[str, str]) -> None:
    if name == "ENV":
        for key, text in _pairs(value):
            image.environment[key] = Template(text).substitute({**arguments, **image.environment})
    elif name == "LABEL":
        for key, text in _pairs(value):
            image.labels[key] = Template(text).substitute(arguments)
    elif name == "WORKDIR":
        image.working_directory = value
        Path(image.here(value)).mkdir(parents=True, exist_ok=True)
    elif name == "USER":
        image.user = value
    elif name == "EXPOSE":
        image.ports = value.split()
    elif name == "ENTRYPOINT":
        image.entrypoint = json.loads(value)
    elif name == "CMD":
        image.command = json.loads(value)
    elif name == "HEALTHCHECK":
        image.healthcheck = json.loads(value.partition("CMD")[2])
    else:
        assert name == "ARG", f"{name} is not known here"


def _pairs(value: str) -> Iterator[tuple[str, str]]:
    for word in shlex.split(value):
        key, _, text = word.partition("=")
        yield key, text
