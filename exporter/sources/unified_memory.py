"""GPUs without memory of their own: which parts these are, and how much memory they share.

NVML's NOT_SUPPORTED alone proves nothing: a part must also be known to share the CPU's memory.
"""

import re
from pathlib import Path

from exporter.records.device import UnifiedMemory

MEMINFO = Path("/proc/meminfo")
_PARTS = re.compile(r"\b(GB10|GH200|N1X?|Thor|Orin|Xavier|Tegra)\b", re.IGNORECASE)
_KIB = 1024


def can_share_memory(gpu_name: str) -> bool:
    """Whether the part of this name (nvmlDeviceGetName) may have no memory of its own."""
    return _PARTS.search(gpu_name) is not None


def unified_memory(meminfo: str) -> UnifiedMemory | None:
    """What /proc/meminfo says of the machine's memory; None when it does not."""
    figures = dict(re.findall(r"^(MemTotal|MemAvailable):\s+(\d+) kB$", meminfo, re.MULTILINE))
    if len(figures) < 2:
        return None
    return UnifiedMemory(
        total_bytes=int(figures["MemTotal"]) * _KIB,
        available_bytes=int(figures["MemAvailable"]) * _KIB,
    )


def read_unified_memory(path: Path = MEMINFO) -> UnifiedMemory | None:
    """`unified_memory` of this machine; None when it cannot be read."""
    try:
        return unified_memory(path.read_text())
    except OSError:
        return None
