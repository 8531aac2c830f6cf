"""Cause: a GPU's clocks are held down. Knows which of the driver's event reasons matter."""

from collections.abc import Iterator

from exporter.analysis.diagnosis.finding import Judged, Judgement, Unjudged
from exporter.analysis.diagnosis.history import DeviceHistory, History

HARMFUL = {
    "hw_slowdown": "the hardware protects itself from heat or lack of power",
    "hw_thermal_slowdown": "the GPU is too hot",
    "hw_power_brake_slowdown": "the power supply asks for less",
    "sw_thermal_slowdown": "the driver keeps the GPU below its temperature limit",
}
"""NVML's nvmlClocksEventReason… that no healthy machine shows under load. The power cap
(`sw_power_cap`) is where a busy GPU normally runs; the others are settings or idleness."""

LASTING_RATIO = 0.1
"""Share of samples from which throttling is more than a spike."""

_ADVICE = (
    "Look after cooling and power of this GPU (air flow, neighbours, power supply, the limit that"
    " nvidia-smi -q -d POWER shows); until then it decodes slower than the others."
)


def judged(history: History) -> Iterator[Judgement]:
    """One judgement a GPU."""
    for device in history.devices.values():
        yield _judged(device)


def _judged(device: DeviceHistory) -> Judgement:
    name = f"cuda:{device.facts.index}"
    views = device.reason_views
    if not views:
        return Unjudged(name, "clock event reasons are not told")
    harmful = {
        reason: device.active_reasons[reason]
        for reason in HARMFUL
        if device.active_reasons.get(reason)
    }
    if not harmful:
        capped = device.active_reasons.get("sw_power_cap", 0)
        power = f"; at its power cap in {capped}, which is normal under load" if capped else ""
        told = f"clocks were not held down by heat or hardware in {views} samples{power}"
        return Judged(subject=name, evidence=(told,))
    evidence = [
        f"{reason} in {count} of {views} samples: {HARMFUL[reason]}"
        for reason, count in harmful.items()
    ]
    temperatures = device.sample.temperatures_celsius if device.sample else None
    for sensor, celsius in (temperatures or {}).items():
        evidence.append(f"temperature ({sensor}) {celsius:.0f} C at the end")
    return Judged(
        subject=name,
        verdict="act" if max(harmful.values()) >= LASTING_RATIO * views else "watch",
        evidence=tuple(evidence),
        advice=_ADVICE,
    )
