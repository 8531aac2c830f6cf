"""Command lines in manifests, read by the program's own parser and settings."""

from click import Context

from exporter.cli import _KEYS, cli
from exporter.settings import Settings, load


def parsed(arguments: list[str]) -> Context:
    """The command with its flags. Raises: UsageError: the program would refuse them."""
    name, *flags = arguments
    return cli.commands[name].make_context(name, flags)


def settings_of(arguments: list[str]) -> Settings:
    """The settings that the flags make. Raises: ConfigError: a value is refused."""
    params = parsed(arguments).params
    given = {_KEYS[name]: value for name, value in params.items() if name in _KEYS}
    return load(None, {key: value for key, value in given.items() if value not in (None, ())})
