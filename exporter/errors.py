"""The exceptions that cross a module; it knows no logging, exit codes or HTTP."""


class ExporterError(Exception):
    """Base of all errors that this program raises on purpose; its text is one readable line."""


class ConfigError(ExporterError):
    """A setting cannot be used; the text names where it stands, its value and what is allowed."""


class RecordingError(ExporterError):
    """A recording cannot be replayed or written; the text names the file and the reason."""


class SourceUnavailable(ExporterError):  # noqa: N818 (a state, named as one)
    """A source could not be read at all this time; the runner backs off and tries again.

    Args:
        reason: short snake_case word, a label value of bounded number (``library_not_found``).
        detail: what happened, naming the thing and the value.
        fix: what the operator can do about it; empty when there is nothing to do but wait.
        backs_off: False when this is no fault but a state that ends without notice, such as before
            an engine's start: it is looked at again every second.
    """

    def __init__(self, reason: str, detail: str, fix: str = "", *, backs_off: bool = True) -> None:
        super().__init__(f"{detail}; {fix}" if fix else detail)
        self.reason = reason
        self.detail = detail
        self.fix = fix
        self.backs_off = backs_off
