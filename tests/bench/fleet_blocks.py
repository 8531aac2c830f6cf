"""One node's series made into those of a whole fleet, hours of them, as Prometheus blocks."""

import subprocess
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.programs import require_program

BLOCK_S = 7200
"""promtool reads its input once for each such block: a file holds one."""


@dataclass(frozen=True)
class Series:
    """A series as one Prometheus told it: its labels, `__name__` among them, and its value then."""

    labels: dict[str, str]
    value: float

    @property
    def name(self) -> str:
        return self.labels["__name__"]


@dataclass(frozen=True)
class Span:
    """Unix seconds, both whole multiples of a block's length, and the time between two samples."""

    begin_s: int
    end_s: int
    step_s: int


def fleet(node: Iterable[Series], nodes: int) -> Iterator[Series]:
    """What belongs to a node once for each node; what is of the whole fleet once."""
    for series in node:
        if "instance" not in series.labels:
            yield series
            continue
        for number in range(nodes):
            labels = {**series.labels, "instance": f"node-{number:04d}:10411"}
            if "uuid" in labels:
                labels["uuid"] = f"{labels['uuid'][:-4]}{number:04x}"
            yield Series(labels, series.value * (0.7 + 0.3 * (number * 37 % 101) / 100))


def write_blocks(series: list[Series], span: Span, directory: Path) -> int:
    """Fill `directory` with blocks of moving values; returns how many samples they hold."""
    lines = [(_head(one.labels), one.value, _is_counter(one.name)) for one in series]
    begins = range(span.begin_s, span.end_s, BLOCK_S)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda begin_s: _write_block(lines, begin_s, span.step_s, directory), begins))
    return len(lines) * ((span.end_s - span.begin_s) // span.step_s)


def _write_block(
    lines: list[tuple[str, float, bool]], begin_s: int, step_s: int, directory: Path
) -> None:
    path = directory.parent / f"{begin_s}.om"
    with path.open("w") as file:
        for tick, at_s in enumerate(range(begin_s, begin_s + BLOCK_S, step_s)):
            end = f" {at_s}\n"
            file.writelines(
                f"{head}{_moved(value, is_counter, at_s, row, tick):.6g}{end}"
                for row, (head, value, is_counter) in enumerate(lines)
            )
        file.write("# EOF\n")
    promtool = require_program("promtool")
    command = [promtool, "tsdb", "create-blocks-from", "openmetrics", str(path), str(directory)]
    subprocess.run([*command, "--quiet"], check=True)
    path.unlink()


def _moved(value: float, is_counter: bool, at_s: int, row: int, tick: int) -> float:
    """Up and down by a tenth; a counter grows by up to 3 a second."""
    if is_counter:
        return value + at_s % 1_000_000 * (row % 4)
    return value * (0.9 + (row * 7 + tick) % 97 / 970)


def _is_counter(name: str) -> bool:
    return name.endswith(("_total", "_bucket", "_count", "_sum")) and ":" not in name


def _head(labels: dict[str, str]) -> str:
    pairs = ",".join(f'{name}="{value}"' for name, value in labels.items() if name != "__name__")
    return f"{labels['__name__']}{{{pairs}}} "
