"""What nvidia-smi -q says of the figures that the slow lane reads, under our series' names."""

import re
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable

MIB = 2**20


def smi_query() -> str:
    """nvidia-smi -q -x of now, without the numbers of boards."""
    command = ["nvidia-smi", "-q", "-x"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return re.sub(r"<(\w*serial\w*|pdi|\w*guid)>[^<]*<", r"<\1><", text)


def details_of(xml: str) -> list[dict[str, float]]:
    """Of each GPU: series name, with its last label's value in brackets → figure in our unit."""
    return [_details(gpu) for gpu in ElementTree.fromstring(xml).iter("gpu")]


def _details(gpu: ElementTree.Element) -> dict[str, float]:
    paths: dict[str, tuple[str, float]] = {
        "gpu_bar1_total_bytes": ("bar1_memory_usage/total", MIB),
        "gpu_bar1_used_bytes": ("bar1_memory_usage/used", MIB),
        "gpu_pcie_replays_total": ("pci/replay_counter", 1),
        "gpu_pcie_link_generation": ("pci/pci_gpu_link_info/pcie_gen/current_link_gen", 1),
        "gpu_pcie_link_max_generation": ("pci/pci_gpu_link_info/pcie_gen/max_link_gen", 1),
        "gpu_pcie_link_lanes": ("pci/pci_gpu_link_info/link_widths/current_link_width", 1),
        "gpu_pcie_link_max_lanes": ("pci/pci_gpu_link_info/link_widths/max_link_width", 1),
        "gpu_remapped_rows[correctable]": ("remapped_rows/remapped_row_corr", 1),
        "gpu_remapped_rows[uncorrectable]": ("remapped_rows/remapped_row_unc", 1),
        "gpu_remapped_rows[pending]": ("remapped_rows/remapped_row_pending", 1),
        "gpu_remapped_rows[failure]": ("remapped_rows/remapped_row_failure", 1),
    }
    found = {name: _number(gpu.findtext(path)) for name, (path, _unit) in paths.items()}
    details = {
        name: number * paths[name][1] for name, number in found.items() if number is not None
    }
    for life in ("volatile", "aggregate"):
        for kind in ("corrected", "uncorrected"):
            tag = "uncorrect" if kind == "uncorrected" else "correct"
            counts = _counts(gpu.iterfind(f"ecc_errors/{life}/*"), tag)
            if counts:
                details[f"gpu_ecc_errors_total[{kind}_{life}]"] = sum(counts)
    limit = _number(next((node.text for node in gpu.iter("current_power_limit")), None))
    if limit is not None:
        details["gpu_power_limit_watts"] = limit
    return details


def _counts(nodes: Iterable[ElementTree.Element], tag: str) -> list[float]:
    """Of DRAM and SRAM; parity and SEC-DED are told apart for what is uncorrectable."""
    return [
        number
        for node in nodes
        if re.fullmatch(rf"(dram|sram)_{tag}able(_parity|_secded)?", node.tag)
        and (number := _number(node.text)) is not None
    ]


def _number(text: str | None) -> float | None:
    words = {"No": 0.0, "Yes": 1.0}
    if text is None or text in words:
        return words.get(text or "")
    match = re.match(r"[\d.]+", text)
    return float(match.group()) if match else None
