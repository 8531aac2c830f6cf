"""The bundled recording: what it shows stays what was measured."""

import re
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import pytest

from exporter.recordings import bundled_path
from exporter.records.device import DeviceReading
from exporter.records.trace import EngineRecord, KvRecord, TorchRecord, TraceReading, TraceRecord
from exporter.sources.recording import Recording

S = 1_000_000_000
CO_TENANT = 2654
KV_BYTES_PER_BLOCK = 524_288
BUNDLED = sorted(bundled_path().parent.glob("*.jsonl"))


@pytest.fixture(scope="module")
def bundle() -> Recording:
    return Recording.load(bundled_path())


def device_readings(recording: Recording) -> list[DeviceReading]:
    return [event.reading for event in recording.events if isinstance(event.reading, DeviceReading)]


def records(recording: Recording) -> list[TraceRecord]:
    return [
        record
        for event in recording.events
        if isinstance(event.reading, TraceReading)
        for record in event.reading.records
    ]


def kv_records(recording: Recording) -> list[KvRecord]:
    return [record for record in records(recording) if isinstance(record, KvRecord)]


def torch_records(recording: Recording) -> list[TorchRecord]:
    return [record for record in records(recording) if isinstance(record, TorchRecord)]


def test_it_is_a_file_of_the_package_of_at_most_a_megabyte() -> None:
    assert bundled_path().parent == files("exporter.recordings")
    assert bundled_path().stat().st_size <= 1_000_000


def test_all_that_is_bundled_stays_below_one_and_a_half_megabytes() -> None:
    assert sum(path.stat().st_size for path in BUNDLED) < 1_500_000


@pytest.mark.parametrize("path", BUNDLED, ids=[path.stem for path in BUNDLED])
def test_nothing_of_the_machine_is_in_what_is_bundled(path: Path) -> None:
    header, _, text = path.read_text().partition("\n")
    assert header.startswith('{"type":"recording"')
    assert "/" not in text.replace("N/A", "")
    uuids = {line.split('"')[0] for line in text.split("GPU-")[1:]}
    assert uuids <= {f"{n:08x}-0000-4000-8000-{n:012x}" for n in range(1, 5)}
    buses = {line.split('"')[0] for line in text.split('"pci_bus_id":"')[1:]}
    assert buses <= {f"00000000:{first}B:00.0" for first in range(1, 8)}
    assert len(buses) == len(uuids)
    assert set(re.findall(r'"replica":"([^"]*)"', text)) == {"vllm-0"}


def test_it_lasts_57_seconds_at_two_readings_a_second(bundle: Recording) -> None:
    assert bundle.header.name == "tp4_cotenant"
    assert bundle.header.interval_s == 0.5
    assert bundle.duration_s == pytest.approx(57.0, abs=0.01)
    readings = device_readings(bundle)
    assert len(readings) == 114
    assert {reading.interval_s for reading in readings} == {0.5}
    steps = [b.ts_unix_ns - a.ts_unix_ns for a, b in pairwise(readings)]
    assert 0.4 * S < min(steps) <= max(steps) < 0.6 * S


def test_its_four_gpus_have_identities_of_their_own(bundle: Recording) -> None:
    for reading in device_readings(bundle):
        facts = [device.facts for device in reading.devices]
        assert [fact.index for fact in facts] == [0, 1, 2, 3]
        assert len({fact.uuid for fact in facts}) == 4
        assert len({fact.pci_bus_id for fact in facts}) == 4
        assert {fact.name for fact in facts} == {"NVIDIA H200"}


def test_memory_sums_up_on_every_gpu_at_every_moment(bundle: Recording) -> None:
    for reading in device_readings(bundle):
        for device in reading.devices:
            assert device.sample is not None
            memory, processes = device.sample.memory, device.sample.processes
            assert memory is not None
            assert processes is not None
            assert memory.reserved_bytes == 644_939_776
            assert memory.total_bytes == 644_939_776 + memory.used_bytes + memory.free_bytes
            assert sum(process.used_bytes or 0 for process in processes) <= memory.used_bytes


def test_it_starts_under_load_with_every_rank_known(bundle: Recording) -> None:
    first = bundle.events[0].reading
    assert isinstance(first, TraceReading)
    (kv,) = (record for record in first.records if isinstance(record, KvRecord))
    assert (kv.running, kv.waiting) == (16, 0)
    assert kv.blocks is not None
    assert kv.blocks.active == 1423
    ranks = {record.rank for record in first.records if isinstance(record, TorchRecord)}
    assert ranks == {0, 1, 2, 3}
    assert any(isinstance(record, EngineRecord) for record in first.records)


def test_it_ends_before_the_last_phantom_request(bundle: Recording) -> None:
    assert device_readings(bundle)[-1].ts_unix_ns <= 1_795_960_085_800_000_000
    last = kv_records(bundle)[-1]
    assert last.ts_unix_ns == 1_795_960_084_855_000_000
    assert last.running == 4


def test_kv_usage_reaches_two_thirds(bundle: Recording) -> None:
    blocks = [record.blocks for record in kv_records(bundle) if record.blocks is not None]
    assert {block.usable for block in blocks} == {5999}
    fullest = max(block.active for block in blocks)
    assert fullest == 4036
    assert round(fullest / 5999, 5) == 0.67278


def test_contiguous_pages_count_the_first_page_of_each_table(bundle: Recording) -> None:
    tables = [record.page_table for record in kv_records(bundle) if record.page_table is not None]
    fullest = max(tables, key=lambda table: table.num_pages)
    assert fullest.num_pages == 8000
    assert fullest.contiguous_pages == 4686 + 48
    assert fullest.descending_pages == 116
    assert fullest.tables == 48


def test_a_co_tenant_comes_and_goes_on_gpu_1(bundle: Recording) -> None:
    on_gpu_1 = [
        (reading.ts_unix_ns, process.used_bytes)
        for reading in device_readings(bundle)
        for device in reading.devices
        if device.facts.index == 1 and device.sample is not None
        for process in device.sample.processes or ()
        if process.pid == CO_TENANT
    ]
    assert on_gpu_1[0][0] == 1_795_960_055_861_000_000
    assert on_gpu_1[-1][0] == 1_795_960_074_332_000_000
    assert {used for _, used in on_gpu_1} == {7_084_179_456}
    assert len(on_gpu_1) == 38


def test_counters_never_go_back(bundle: Recording) -> None:
    caches = [record.prefix_cache for record in kv_records(bundle)]
    for before, after in pairwise(cache for cache in caches if cache is not None):
        assert before.query_tokens <= after.query_tokens
        assert before.hit_tokens <= after.hit_tokens
    assert caches[0] is not None
    assert (caches[0].query_tokens, caches[0].hit_tokens) == (47_607, 24_176)


def test_times_of_every_writer_rise_over_the_seam_of_two_laps(bundle: Recording) -> None:
    times: dict[tuple[type, int | None], list[int]] = {}
    for event in bundle.events_until(2 * bundle.duration_s, start_unix_ns=1_800_000_000 * S):
        if isinstance(event.reading, TraceReading):
            for record in event.reading.records:
                rank = record.rank if isinstance(record, TorchRecord) else None
                times.setdefault((type(record), rank), []).append(record.ts_unix_ns)
    assert len(times) == 6
    for series in times.values():
        assert all(before < after for before, after in pairwise(series))


def test_the_ledger_of_gpu_1_can_be_worked_out_half_way(bundle: Recording) -> None:
    moment_ns = 1_795_960_065 * S
    reading = [r for r in device_readings(bundle) if r.ts_unix_ns <= moment_ns][-1]
    kv = [record for record in kv_records(bundle) if record.ts_unix_ns <= moment_ns][-1]
    torch = [
        record
        for record in torch_records(bundle)
        if record.rank == 1 and record.ts_unix_ns <= moment_ns
    ][-1]
    device = reading.devices[1]
    assert torch.uuid == device.facts.uuid
    assert device.sample is not None
    assert device.sample.memory is not None
    worker, co_tenant = device.sample.processes or ()
    assert worker.pid == torch.pid
    assert worker.used_bytes is not None
    assert co_tenant.used_bytes == 7_084_179_456
    assert torch.reserved_bytes is not None
    assert torch.allocated_bytes is not None
    assert worker.used_bytes - torch.reserved_bytes == 2_522_873_856
    assert torch.reserved_bytes - torch.allocated_bytes == 854_537_728
    assert torch.kv_pool_bytes == 3_145_728_000 == 6000 * KV_BYTES_PER_BLOCK
    assert torch.allocated_bytes - torch.kv_pool_bytes == 4_201_695_744
    assert kv.blocks is not None
    assert kv.blocks.active * KV_BYTES_PER_BLOCK == 1_887_436_800
    assert kv.blocks.num_free * KV_BYTES_PER_BLOCK == 1_257_766_912
    memory = device.sample.memory
    assert memory.free_bytes == 132_285_726_720
    used_by_processes = worker.used_bytes + co_tenant.used_bytes
    assert memory.used_bytes - used_by_processes == 15_138_816
