"""The exposition formats that a scraper can ask for, as prometheus_client has them."""

from collections.abc import Callable
from dataclasses import dataclass, field

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, choose_encoder, generate_latest
from prometheus_client.registry import Collector


@dataclass(frozen=True, slots=True)
class TextFormat:
    """A format: its content type, which tells it apart, and its encoder."""

    content_type: str
    encode: Callable[[Collector], bytes] = field(compare=False)


PLAIN = TextFormat(CONTENT_TYPE_PLAIN_0_0_4, generate_latest)


def text_format(accept: str) -> TextFormat:
    """The format that an Accept header asks for; one that makes no sense gets plain text 0.0.4."""
    try:
        encode, content_type = choose_encoder(accept)
    except TypeError:  # prometheus_client compares a version that is no number with one that is
        return PLAIN
    return TextFormat(content_type, encode)
