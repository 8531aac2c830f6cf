"""The View of a running daemon, over HTTP; knows nothing of what is done with it."""

import msgspec
from msgspec.structs import replace

from exporter.clock import SystemClock
from exporter.errors import ConfigError, ExporterError, SourceUnavailable
from exporter.records.view import View
from exporter.sources.engine_url import read_engine_urls
from exporter.sources.http_get import get

TIMEOUT_S = 5.0


class DaemonView:
    """Asks one daemon for its newest View.

    Raises: ConfigError: `url` is no URL; ``http://`` may be left out.
    """

    def __init__(self, url: str) -> None:
        try:
            (read,) = read_engine_urls((url if "://" in url else f"http://{url}",))
        except ConfigError as exc:
            raise ConfigError(
                "--url: that is not allowed; use a daemon's URL, for example http://localhost:10411"
            ) from exc
        base = read.target.partition("?")[0].removesuffix("/metrics").rstrip("/")
        self._url = replace(read, target=f"{base}/api/view")
        self._clock = SystemClock()

    def read(self) -> View:
        """The View as the daemon publishes it now.

        Raises: ExporterError: it does not answer, has no View, or is another program or version.
        """
        try:
            body = get(self._url, TIMEOUT_S, self._clock)
        except SourceUnavailable as exc:
            raise ExporterError(
                f"--url: {exc.detail}; is vllm-memory-exporter running there, and ready?"
            ) from exc
        try:
            return msgspec.json.decode(body, type=View)
        except (msgspec.DecodeError, RecursionError) as exc:
            raise ExporterError(
                f"--url: {self._url.shown} answers with no View of this version: {exc}"
            ) from exc
