"""Plays recordings through the ledger: the newest records at each device reading."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from exporter.analysis.ledger import Ledgers, ledgers
from exporter.analysis.worker import Worker
from exporter.records.codec import decode_line
from exporter.records.device import DeviceReading
from exporter.records.trace import EngineRecord, KvRecord, TorchRecord


class Moment(NamedTuple):
    """One device reading with the workers known by then and their ledgers."""

    reading: DeviceReading
    workers: tuple[Worker, ...]
    ledgers: Ledgers


def moments(recording: Path) -> Iterator[Moment]:
    """Every device reading of a recording of one replica; recorded pids are the driver's."""
    torch: dict[tuple[str, int], TorchRecord] = {}
    kv: dict[str, KvRecord] = {}
    facts: dict[str, EngineRecord] = {}
    with gzip.open(recording) if recording.suffix == ".gz" else recording.open("rb") as file:
        lines = file.read().splitlines()
    for line in lines:
        match decode_line(line):
            case TorchRecord() as record:
                torch[record.engine, record.rank] = record
            case KvRecord() as record:
                kv[record.engine] = record
            case EngineRecord() as record if record.role != "worker":
                facts[record.engine] = record
            case DeviceReading() as reading:
                workers = tuple(
                    worker(record, kv.get(record.engine), facts.get(record.engine), reading)
                    for record in torch.values()
                )
                samples = {device.facts.uuid: device.sample for device in reading.devices}
                yield Moment(reading, workers, ledgers(samples, workers))


def worker(
    torch: TorchRecord, kv: KvRecord | None, facts: EngineRecord | None, reading: DeviceReading
) -> Worker:
    """A worker as of a reading."""
    return Worker(
        replica=torch.replica,
        engine=torch.engine,
        torch=torch,
        torch_age_intervals=_age_intervals(torch, reading),
        kv=kv,
        kv_age_intervals=_age_intervals(kv, reading) if kv else 0.0,
        facts=facts,
        host_pid=torch.pid,
    )


def _age_intervals(record: TorchRecord | KvRecord, reading: DeviceReading) -> float:
    return (reading.ts_unix_ns - record.ts_unix_ns) / 1e9 / record.interval_s
