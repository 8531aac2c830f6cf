"""Arguments → a command. The only place that exits, and that turns an error into a line."""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import click

from exporter import __version__
from exporter.errors import ConfigError, ExporterError
from exporter.log_format import configure
from exporter.recordings import DEMO, bundled_path
from exporter.settings import KEYS, Settings, load

Command = TypeVar("Command", bound=Callable[..., Any])

_KEYS = {key.replace(".", "_").replace("-", "_"): key for key in KEYS}
"""click's name of a flag → its key."""

PROGRAM = "vllm-memory-exporter"

SOURCE_OPTIONS = (
    click.option(
        "--config.file",
        "config_file",
        metavar="FILE",
        help="YAML with the same settings, one section per prefix; flags win.",
    ),
    click.option(
        "--nvml.interval",
        "nvml_interval",
        metavar="DURATION",
        help="How often to sample the GPUs, 100ms to 60s.  [default: 500ms]",
    ),
    click.option(
        "--nvml.gpm",
        "nvml_gpm",
        is_flag=True,
        default=None,
        help="Also read the GPUs' own counters (DRAM, SMs, PCIe); not beside DCGM's profiling.",
    ),
    click.option("--no-nvml", is_flag=True, help="Do not ask the driver: trace only."),
    click.option(
        "--trace.path",
        "trace_path",
        multiple=True,
        metavar="PATH",
        help="Trace or vLLM log: file, directory or glob to follow; may be repeated.",
    ),
    click.option(
        "--engine.url",
        "engine_url",
        multiple=True,
        metavar="[NAME=]URL",
        help="vLLM's own /metrics, asked once a second; may be repeated. For servers without the"
        " plugin; NAME is the replica.",
    ),
    click.option(
        "--kubernetes.pod-resources",
        "kubernetes_pod_resources",
        metavar="SOCKET",
        help="The kubelet's pod-resources socket, to tell which pod has which GPU; needs the extra"
        " [kubernetes].",
    ),
    click.option(
        "--conflicts.expected_processes",
        "conflicts_expected_processes",
        multiple=True,
        metavar="NAME",
        help="Process that may take memory beside an engine without being told as a co-tenant; may"
        " be repeated.",
    ),
    click.option(
        "--replay",
        metavar="FILE",
        help="Play a recording instead of reading this machine.",
    ),
    click.option(
        "--replay.freeze-at",
        "replay_freeze_at",
        metavar="SECONDS",
        help="Feed the recording's first SECONDS at once, then stand still.",
    ),
    click.option(
        "--log.level",
        "log_level",
        metavar="LEVEL",
        help="debug, info, warning or error.  [default: info]",
    ),
    click.option(
        "--log.format",
        "log_format",
        metavar="FORMAT",
        help="logfmt or json.  [default: logfmt]",
    ),
)

WEB_OPTIONS = (
    click.option(
        "--web.listen-address",
        "web_listen_address",
        metavar="ADDRESS",
        help="Where to listen.  [default: :10411]",
    ),
    click.option(
        "--web.telemetry-path",
        "web_telemetry_path",
        metavar="PATH",
        help="Where Prometheus scrapes.  [default: /metrics]",
    ),
    click.option(
        "--web.config.file",
        "web_config_file",
        metavar="FILE",
        help="TLS, passwords and headers, in the format of Prometheus's exporter-toolkit.",
    ),
    click.option(
        "--web.enable-lifecycle",
        "web_enable_lifecycle",
        is_flag=True,
        default=None,
        help="Let clients reload the settings: POST to /-/reload. SIGHUP always does.",
    ),
)


VIEW_OPTIONS = (
    click.option(
        "--url",
        metavar="URL",
        help="Ask a running daemon instead of this machine, for example http://localhost:10411.",
    ),
    click.option("--json", "is_json", is_flag=True, help="Print JSON instead of text."),
)


def _with(options: tuple[Callable[[Command], Command], ...]) -> Callable[[Command], Command]:
    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@click.group(
    epilog="Without a command, serve runs: `vllm-memory-exporter --trace.path /trace`.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name=PROGRAM)
def cli() -> None:
    """Say why a vLLM server's GPU memory is full, who owns it, and what to change.

    \b
    Try it without a GPU:   vllm-memory-exporter demo
    Beside an engine:       vllm-memory-exporter serve --trace.path /var/run/vllm-trace
    What is wrong:          vllm-memory-exporter doctor --url http://localhost:10411
    Who holds the memory:   vllm-memory-exporter processes --watch
    Keep what happened:     vllm-memory-exporter record --output incident.jsonl --for 60s
    """


@cli.command()
@_with(SOURCE_OPTIONS)
@_with(WEB_OPTIONS)
def serve(**flags: object) -> None:
    """Run the daemon: sample GPUs, follow traces, serve /metrics. SIGHUP reloads its settings."""
    from exporter.commands import serve as command

    load_again = _loader(flags)
    command.run(_configured(load_again()), load_again)


@cli.command()
@_with(SOURCE_OPTIONS)
@_with(WEB_OPTIONS)
def demo(**flags: object) -> None:
    """Run the daemon on a recorded incident; no GPU needed."""
    from exporter.commands import serve as command

    load_again = _loader(flags, is_demo=True)
    command.run(_configured(load_again()), load_again)


@cli.command()
@_with(SOURCE_OPTIONS)
@click.option("--output", required=True, metavar="FILE", help="Recording to write; must be new.")
@click.option(
    "--for", "duration", metavar="DURATION", help="Stop after this long; otherwise at Ctrl-C."
)
def record(output: str, duration: str | None, **flags: object) -> None:
    """Write what the sources see to a recording that serve --replay plays."""
    from exporter.commands import record as command

    command.run(_settings(flags), output, duration)


@cli.command()
@_with(SOURCE_OPTIONS)
@_with(VIEW_OPTIONS)
@click.option("--for", "duration", metavar="DURATION", help="How long to look.  [default: 30s]")
def doctor(url: str | None, duration: str | None, is_json: bool, **flags: object) -> None:
    """Look for a while and name what is wrong, with evidence and what to change.

    \b
    A running daemon:   vllm-memory-exporter doctor --url http://localhost:10411 --for 60s
    A recording:        vllm-memory-exporter doctor --replay incident.jsonl
    This machine:       vllm-memory-exporter doctor --trace.path /var/run/vllm-trace

    Causes: KV blocks exhausted, a prefix cache that finds little, torch's allocator, a process
    beside the engine, page tables scattered where KV is transferred, throttling, and what could
    not be seen. A growing allocator gap takes --for 7m to tell. Causes for which data are missing
    are listed as not judged.

    Exit code: 0 all is well, 1 something to watch or to change, 2 it could not look.
    """
    from exporter.commands import doctor as command

    try:
        is_ok = command.run(_settings(flags), url, duration, is_json=is_json)
    except ExporterError as exc:
        _say(exc)
        sys.exit(2)
    sys.exit(0 if is_ok else 1)


@cli.command()
@_with(SOURCE_OPTIONS)
@_with(VIEW_OPTIONS)
@click.option("--watch", "is_watching", is_flag=True, help="Go on until Ctrl-C.")
@click.option(
    "--command-lines",
    "shows_commands",
    is_flag=True,
    help="Show command lines too, secrets replaced by ***.",
)
def processes(
    url: str | None, is_json: bool, is_watching: bool, shows_commands: bool, **flags: object
) -> None:
    """Show the processes on each GPU, what they hold, and which engine they belong to.

    \b
    This machine:       vllm-memory-exporter processes --trace.path /var/run/vllm-trace --watch
    A running daemon:   vllm-memory-exporter processes --url http://localhost:10411
    A recording:        vllm-memory-exporter processes --replay incident.jsonl --replay.freeze-at 36

    Without --watch a recording is shown as it ends, or at --replay.freeze-at. With --json and
    --watch each moment is one line. Start times and command lines are those of this machine's
    processes; a daemon and a recording tell them only of processes in a conflict.
    """
    from exporter.commands import processes as command

    command.run(
        _settings(flags),
        url,
        is_json=is_json,
        is_watching=is_watching,
        shows_commands=shows_commands,
    )


def _loader(flags: dict[str, Any], *, is_demo: bool = False) -> Callable[[], Settings]:
    """What reads the settings in force, again at each call.

    click's names are the settings' keys with `_` for `.` and `-`.
    """
    config_file = flags.pop("config_file")
    raw = {_KEYS[name]: value for name, value in flags.items() if name in _KEYS}
    given = {key: value for key, value in raw.items() if value not in (None, ())}
    if flags["no_nvml"]:
        given["nvml.enabled"] = False
    base = Settings(replay=str(bundled_path(DEMO))) if is_demo else Settings()
    return partial(load, config_file, given, base)


def _configured(settings: Settings) -> Settings:
    configure(settings.log_level, settings.log_format)
    return settings


def _settings(flags: dict[str, Any]) -> Settings:
    return _configured(_loader(flags)())


def main(arguments: list[str] | None = None) -> None:
    """Run the program; exit codes: 0 fine, 1 failed, 2 a mistake in the settings."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or (arguments[0].startswith("-") and not _is_about_the_program(arguments[0])):
        arguments = ["serve", *arguments]
    try:
        cli(arguments, prog_name=PROGRAM)
    except ConfigError as exc:
        _say(exc)
        sys.exit(2)
    except ExporterError as exc:
        _say(exc)
        sys.exit(1)


def _is_about_the_program(argument: str) -> bool:
    return argument in ("-h", "--help", "--version")


def _say(error: ExporterError) -> None:
    for line in str(error).splitlines():
        click.echo(f"{PROGRAM}: {line}", err=True)
