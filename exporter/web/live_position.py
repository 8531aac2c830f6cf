"""How far a viewer has come, and its text: the id of an event."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stream:
    """What a viewer looks at, as indices into the metrics and the windows."""

    metric: int
    window: int


@dataclass(frozen=True, slots=True)
class Position:
    """The last event of a stream: of which run of the server, which layout, column and tick."""

    run: str
    stream: Stream
    layout: int
    column: int
    tick: int

    def __str__(self) -> str:
        stream = self.stream
        return f"{self.run}.{stream.metric}.{stream.window}.{self.layout}.{self.column}.{self.tick}"


def position_of(identifier: str) -> Position | None:
    """The position that an id stands for; None when it is none of ours."""
    run, *numbers = identifier.split(".")
    try:
        metric, window, layout, column, tick = map(int, numbers)
    except ValueError:
        return None
    return Position(run, Stream(metric, window), layout, column, tick)
