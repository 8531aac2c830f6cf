"""A line between browser and daemon that can be cut and mended: a small TCP relay."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class CutLine:
    """Relays every connection to `target`; while cut it hangs up at once."""

    def __init__(self, target: str) -> None:
        self._host, self._port = target.rsplit(":", 1)
        self._open: set[asyncio.StreamWriter] = set()
        self._is_cut = False
        self._listens = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="cut line")
        self._thread.start()
        assert self._listens.wait(10)

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._listens.set()
        await self._ended.wait()
        server.close()
        self._hang_up()

    def stop(self) -> None:
        """End it."""
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(10)

    def cut(self) -> None:
        """Hang up on all, and on who comes."""
        self._is_cut = True
        self._loop.call_soon_threadsafe(self._hang_up)

    def mend(self) -> None:
        """Relay again."""
        self._is_cut = False

    def _hang_up(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
        self._open |= {writer, far_writer}
        await asyncio.gather(self._copy(reader, far_writer), self._copy(far_reader, writer))
        self._open -= {writer, far_writer}

    @staticmethod
    async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):  # either side may hang up at any time
            while content := await reader.read(65536):
                writer.write(content)
                await writer.drain()
        writer.close()


@contextmanager
def cut_line(target: str) -> Iterator[CutLine]:
    """A relay to `target` in a thread of its own."""
    line = CutLine(target)
    try:
        yield line
    finally:
        line.stop()
