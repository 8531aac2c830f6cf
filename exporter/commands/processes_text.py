"""The processes of each GPU as a table for people."""

from rich.console import Group
from rich.table import Table
from rich.text import Text

from exporter.analysis.diagnosis.finding import moment
from exporter.commands.process_rows import Gpu, Machine, Process
from exporter.commands.terminal import UNKNOWN, printable


def table(machine: Machine) -> Group:
    """All GPUs, a line each with its processes below it."""
    at = moment(round(machine.ts_unix_s * 1e9))
    of = f" of the recording {machine.replay}" if machine.replay else ""
    return Group(Text(printable(f"{at}{of}")), _rows(machine))


def _rows(machine: Machine) -> Table:
    shows_commands = any(
        process.command is not None for gpu in machine.gpus for process in gpu.processes or ()
    )
    rows = Table(box=None, pad_edge=False)
    rows.add_column("GPU", no_wrap=True)
    rows.add_column("pid", justify="right", no_wrap=True)
    rows.add_column("name", overflow="fold")
    rows.add_column("memory GB", justify="right", no_wrap=True)
    rows.add_column("share", justify="right", no_wrap=True)
    rows.add_column("owner", overflow="fold")
    rows.add_column("started", no_wrap=True)
    if shows_commands:
        rows.add_column("command", overflow="fold")
    for gpu in machine.gpus:
        rows.add_row(*_gpu_cells(gpu), *([""] if shows_commands else []), style="bold")
        for process in gpu.processes or ():
            command = [_cell(process.command)] if shows_commands else []
            rows.add_row(*_process_cells(process), *command)
    return rows


def _gpu_cells(gpu: Gpu) -> list[Text]:
    is_known = gpu.used_bytes is not None and bool(gpu.total_bytes)
    share = (gpu.used_bytes or 0) / (gpu.total_bytes or 1) if is_known else None
    note = "" if gpu.processes is not None else "processes are not told"
    return [
        _cell(gpu.device),
        Text(""),
        _cell(gpu.name),
        _cell(_gigabytes(gpu.used_bytes)),
        _cell(_share(share)),
        Text(note),
        Text(""),
    ]


def _process_cells(process: Process) -> list[Text]:
    started = process.start_unix_s
    return [
        Text(""),
        _cell(str(process.pid)),
        _cell(process.name),
        _cell(_gigabytes(process.used_bytes)),
        _cell(_share(process.share_ratio)),
        _cell(process.owner),
        _cell(None if started is None else moment(round(started * 1e9))),
    ]


def _cell(text: str | None) -> Text:
    return Text(printable(text) if text else UNKNOWN)


def _gigabytes(count_bytes: int | None) -> str | None:
    return None if count_bytes is None else f"{count_bytes / 1e9:.2f}"


def _share(ratio: float | None) -> str | None:
    return None if ratio is None else f"{ratio:.1%}"
