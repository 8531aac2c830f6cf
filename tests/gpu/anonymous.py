"""Text from a real machine with its identifiers replaced by invented ones, each by its own."""

import re

_UUID = re.compile(r"(GPU|MIG)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_BUS_ID = re.compile(r"\b[0-9A-F]{8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-9]\b")


def anonymous(text: str) -> str:
    """The text with every GPU uuid and PCI bus id replaced, in the order of their appearance."""
    uuids: dict[str, str] = {}
    buses: dict[str, str] = {}
    for match in _UUID.finditer(text):
        number = len(uuids) + 1
        uuids.setdefault(
            match.group(), f"{match.group(1)}-{number:08x}-0000-4000-8000-{number:012x}"
        )
    for match in _BUS_ID.finditer(text):
        buses.setdefault(match.group(), f"00000000:{16 * len(buses) + 0x1B:02X}:00.0")
    for real, invented in {**uuids, **buses}.items():
        text = text.replace(real, invented)
    return text
