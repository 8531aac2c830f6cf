"""Colours of the memory ledger's owners: one owner looks the same on every board."""

from dashboards.panels import fixed, named

_COLOURS = {
    "kv_active": "#e02f44",
    "kv_cached": "#ffb357",
    "kv_free": "#96d98d",
    "kv_unsplit": "#d6bf57",
    "kv_null": "#705da0",
    "weights": "#3274d9",
    "graph_pool": "#8ab8ff",
    "torch_other": "#5794f2",
    "allocator_slack": "#f2cc0c",
    "non_torch": "#8f8f8f",
    "other_processes": "#e05fd0",
    "engine_unsplit": "#447ebc",
    "used_unsplit": "#6e6e6e",
    "unattributed": "#b0b0b0",
    "driver_reserved": "#4d4d4d",
    "free": "#37872d",
}

LEDGER_COLOURS = [
    named(f"^{owner}( · .*)?$", is_pattern=True, color=fixed(colour))
    for owner, colour in _COLOURS.items()
]
