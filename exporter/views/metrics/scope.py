"""What a family is about (each GPU, each engine, …): its labels, and the rows on it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from exporter.records.source import Histogram
from exporter.records.view import View
from exporter.views.metrics.family import Family, Kind, LabelValues, Sample

T = TypeVar("T")
Part = TypeVar("Part")
LabelValue = TypeVar("LabelValue", bound=str)


@dataclass(frozen=True, slots=True)
class Scope(Generic[T]):
    """Things in a View that have the same labels; every method makes one row of the table.

    `members`: the things with their label values, in the order of `labels`; looked for once in each
    View, though many families are about them. A figure that is None is unknown and gives no sample.
    """

    labels: tuple[str, ...]
    members: Callable[[View], Iterable[tuple[LabelValues, T]]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", _once_a_view(self.members))

    def part(self, of: Callable[[T], Part | None]) -> "Scope[Part]":
        """The same labels on a part of each thing; things without the part drop out."""

        def members(view: View) -> Iterator[tuple[LabelValues, Part]]:
            for values, thing in self.members(view):
                if (part := of(thing)) is not None:
                    yield values, part

        return Scope(self.labels, members)

    def gauge(self, name: str, text: str, figure: Callable[[T], float | None]) -> Family:
        """A number of each thing that can go down."""
        return self._family("gauge", name, text, figure)

    def counter(self, name: str, text: str, figure: Callable[[T], float | None]) -> Family:
        """A number of each thing that only grows."""
        return self._family("counter", name, text, figure)

    def histogram(self, name: str, text: str, figure: Callable[[T], Histogram | None]) -> Family:
        """The samples of each thing so far."""
        return self._family("histogram", name, text, figure)

    def gauges(
        self,
        name: str,
        text: str,
        label: str,
        figures: Callable[[T], Mapping[LabelValue, float | None]],
    ) -> Family:
        """Numbers of each thing, told apart by one more label."""
        return self._families("gauge", name, text, label, figures)

    def counters(
        self,
        name: str,
        text: str,
        label: str,
        figures: Callable[[T], Mapping[LabelValue, float | None]],
    ) -> Family:
        """Numbers of each thing that only grow, told apart by one more label."""
        return self._families("counter", name, text, label, figures)

    def info(
        self, name: str, text: str, facts: Mapping[str, Callable[[T], str | float | None]]
    ) -> Family:
        """Facts of each thing as labels of a 1; a fact that is unknown is empty."""

        def samples(view: View) -> Iterator[Sample]:
            for values, thing in self.members(view):
                yield (*values, *(_text(fact(thing)) for fact in facts.values())), 1

        return Family(name, "gauge", text, (*self.labels, *facts), samples)

    def _family(
        self, kind: Kind, name: str, text: str, figure: Callable[[T], float | Histogram | None]
    ) -> Family:
        def samples(view: View) -> Iterator[Sample]:
            for values, thing in self.members(view):
                if (value := figure(thing)) is not None:
                    yield values, value

        return Family(name, kind, text, self.labels, samples)

    def _families(
        self,
        kind: Kind,
        name: str,
        text: str,
        label: str,
        figures: Callable[[T], Mapping[LabelValue, float | None]],
    ) -> Family:
        def samples(view: View) -> Iterator[Sample]:
            for values, thing in self.members(view):
                for key, value in figures(thing).items():
                    if value is not None:
                        yield (*values, key), value

        return Family(name, kind, text, (*self.labels, label), samples)


def _once_a_view(
    members: Callable[[View], Iterable[tuple[LabelValues, T]]],
) -> Callable[[View], Iterable[tuple[LabelValues, T]]]:
    """What `members` found in the View that was asked for last; any thread may call it."""
    newest: tuple[View, Sequence[tuple[LabelValues, T]]] | None = None

    def found(view: View) -> Sequence[tuple[LabelValues, T]]:
        nonlocal newest
        known = newest
        if known is None or known[0] is not view:
            newest = known = (view, tuple(members(view)))
        return known[1]

    return found


def _text(fact: str | float | None) -> str:
    if fact is None:
        return ""
    return str(fact).lower() if isinstance(fact, bool) else str(fact)
