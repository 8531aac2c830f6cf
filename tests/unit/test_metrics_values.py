"""What each family says of a View, by hand; and what it does not say of what is unknown."""

import math

import pytest
from msgspec.structs import replace
from prometheus_client.exposition import choose_encoder, generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as from_openmetrics
from prometheus_client.parser import text_string_to_metric_families as from_text

from exporter.records.device import ProcessMemory
from exporter.records.view import SilentRankView, View
from exporter.views.metrics.exposition import Exposition
from exporter.views.metrics.table import FAMILIES
from tests.views import bare_view, engine_view, gpu_uuid, gpu_view, make_view, mig_uuid, rank_view

D = {"device": "cuda:0", "uuid": gpu_uuid(0)}
M = {**D, "mig_uuid": mig_uuid(0), "gpu_instance_id": "2", "mig_profile": "3g.71gb"}
E = {"replica": "blue-0", "model_name": "Qwen/Qwen3-8B", "engine": "0"}
W = {**E, "rank": "0", **D}
OWN = "vllm_memory_exporter_"

Series = tuple[str, frozenset[tuple[str, str]]]


def text_of(view: View) -> str:
    return generate_latest(Exposition().registry_of(view)).decode()


def series_of(view: View) -> dict[Series, float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in from_text(text_of(view))
        for sample in family.samples
        if not sample.name.startswith("process_")
    }


FULL = series_of(make_view())
BARE = series_of(bare_view())


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("gpu_up", D, 1),
        ("gpu_memory_total_bytes", D, 1000),
        ("gpu_memory_used_bytes", D, 600),
        ("gpu_memory_free_bytes", D, 350),
        ("gpu_memory_reserved_bytes", D, 50),
        ("gpu_memory_used_window_min_bytes", D, 580),
        ("gpu_memory_used_window_max_bytes", D, 620),
        ("gpu_memory_used_window_mean_bytes", D, 601.5),
        ("gpu_memory_pressure_ratio", D, 600 / 950),
        ("gpu_memory_pressure_window_max_ratio", D, 620 / 950),
        ("gpu_memory_pressure_sample_ratio_bucket", {**D, "le": "0.5"}, 3),
        ("gpu_memory_pressure_sample_ratio_bucket", {**D, "le": "0.9"}, 10),
        ("gpu_memory_pressure_sample_ratio_bucket", {**D, "le": "+Inf"}, 11),
        ("gpu_memory_pressure_sample_ratio_count", D, 11),
        ("gpu_memory_pressure_sample_ratio_sum", D, 6.25),
        ("gpu_memory_effective_pressure_ratio", D, 0.25),
        ("gpu_memory_effective_pressure_window_max_ratio", D, 0.75),
        ("gpu_memory_effective_pressure_sample_ratio_sum", D, 2.125),
        ("gpu_utilization_ratio", D, 0.97),
        ("gpu_memory_controller_utilization_ratio", D, 0.41),
        ("gpu_power_watts", D, 512.5),
        ("gpu_temperature_celsius", {**D, "sensor": "gpu"}, 61),
        ("gpu_temperature_celsius", {**D, "sensor": "memory"}, 74),
        ("gpu_clock_hertz", {**D, "clock": "sm"}, 1.98e9),
        ("gpu_throttle_active", {**D, "reason": "sw_power_cap"}, 1),
        ("gpu_throttle_active", {**D, "reason": "hw_thermal_slowdown"}, 0),
        ("gpu_unified_memory_total_bytes", D, 3000),
        ("gpu_unified_memory_available_bytes", D, 1100),
        ("gpu_unified_memory_process_used_bytes", D, 401),
        ("gpu_mig_info", {**M, "compute_instance_id": "1"}, 1),
        ("gpu_mig_up", M, 1),
        ("gpu_mig_memory_total_bytes", M, 400),
        ("gpu_mig_memory_used_bytes", M, 250),
        ("gpu_mig_memory_free_bytes", M, 120),
        ("gpu_mig_memory_reserved_bytes", M, 30),
        ("gpu_mig_memory_ledger_bytes", {**M, "owner": "used_unsplit"}, 250),
        ("gpu_mig_memory_conflicts_total", {**M, "kind": "co_tenant"}, 3),
        ("gpu_dram_bandwidth_utilization_ratio", D, 0.53),
        ("gpu_sm_utilization_ratio", D, 0.66),
        ("gpu_sm_occupancy_ratio", D, 0.14),
        ("gpu_tensor_utilization_ratio", D, 0.31),
        ("gpu_pcie_transmit_bytes_per_second", D, 7000),
        ("gpu_pcie_receive_bytes_per_second", D, 9000),
        ("gpu_nvlink_transmit_bytes_per_second", D, 70_000),
        ("gpu_nvlink_receive_bytes_per_second", D, 90_000),
        ("gpu_power_limit_watts", D, 700.5),
        ("gpu_energy_joules_total", D, 2895.846),
        ("gpu_bar1_total_bytes", D, 2000),
        ("gpu_bar1_used_bytes", D, 17),
        ("gpu_pcie_link_generation", D, 4),
        ("gpu_pcie_link_max_generation", D, 5),
        ("gpu_pcie_link_lanes", D, 8),
        ("gpu_pcie_link_max_lanes", D, 16),
        ("gpu_pcie_replays_total", D, 11),
        ("gpu_nvlink_links", {**D, "state": "up"}, 17),
        ("gpu_nvlink_links", {**D, "state": "down"}, 1),
        ("gpu_nvlink_transmit_bytes_total", D, 5_120_000),
        ("gpu_nvlink_receive_bytes_total", D, 1 << 50),
        ("gpu_nvlink_errors_total", {**D, "kind": "crc_flit"}, 21),
        ("gpu_nvlink_errors_total", {**D, "kind": "crc_data"}, 22),
        ("gpu_nvlink_errors_total", {**D, "kind": "replay"}, 23),
        ("gpu_nvlink_errors_total", {**D, "kind": "recovery"}, 24),
        ("gpu_ecc_errors_total", {**D, "kind": "corrected_volatile"}, 7),
        ("gpu_ecc_errors_total", {**D, "kind": "uncorrected_volatile"}, 2),
        ("gpu_ecc_errors_total", {**D, "kind": "corrected_aggregate"}, 31),
        ("gpu_ecc_errors_total", {**D, "kind": "uncorrected_aggregate"}, 5),
        ("gpu_remapped_rows", {**D, "kind": "correctable"}, 4),
        ("gpu_remapped_rows", {**D, "kind": "uncorrectable"}, 3),
        ("gpu_remapped_rows", {**D, "kind": "pending"}, 1),
        ("gpu_remapped_rows", {**D, "kind": "failure"}, 0),
        ("gpu_xid_errors_total", {**D, "xid": "79"}, 1),
        ("gpu_xid_errors_total", {**D, "xid": "48"}, 3),
        ("gpu_processes", D, 2),
        (
            "gpu_process_memory_used_bytes",
            {**D, "pid": "4101", "process_name": "worker-1"},
            201,
        ),
        ("gpu_memory_ledger_bytes", {**D, "owner": "unattributed"}, 199),
        ("gpu_memory_ledger_bytes", {**D, "owner": "engine_unsplit"}, 200),
        ("gpu_memory_effective_used_bytes", D, 487),
        ("gpu_memory_conflicts_total", {**D, "kind": "co_tenant"}, 1),
        ("gpu_memory_conflicts_total", {**D, "kind": "margin"}, 0),
        ("vllm_engine_up", E, 1),
        ("vllm_engine_restarts_total", E, 2),
        ("vllm_engine_requests", {**E, "state": "running"}, 5),
        ("vllm_engine_requests", {**E, "state": "waiting"}, 14),
        ("vllm_scheduled_prompt_tokens_total", E, 7000),
        ("vllm_scheduled_generation_tokens_total", E, 2500),
        ("vllm_engine_preemptions_total", E, 8),
        ("vllm_page_table_pages", E, 42),
        ("vllm_page_table_contiguous_pages", E, 17),
        ("vllm_page_table_descending_pages", E, 11),
        ("vllm_page_table_extents", E, 28),
        ("vllm_page_table_tables", E, 3),
        ("vllm_page_table_contiguity_ratio", E, 17 / 42),
        ("vllm_kv_cache_blocks", {**E, "state": "active"}, 10),
        ("vllm_kv_cache_blocks", {**E, "state": "cached"}, 6),
        ("vllm_kv_cache_blocks", {**E, "state": "free"}, 24),
        ("vllm_kv_cache_blocks", {**E, "state": "null"}, 1),
        ("vllm_kv_cache_shared_blocks", E, 2),
        ("vllm_kv_cache_usage_ratio", E, 0.25),
        ("vllm_kv_cache_usage_window_min_ratio", E, 0.05),
        ("vllm_kv_cache_usage_window_max_ratio", E, 0.75),
        ("vllm_kv_cache_usage_window_mean_ratio", E, 0.35),
        ("vllm_kv_cache_slots", {**E, "state": "allocated"}, 160),
        ("vllm_kv_cache_slots", {**E, "state": "used"}, 144),
        ("vllm_kv_cache_fragmentation_ratio", E, 0.1),
        ("vllm_kv_cache_headroom_tokens", E, 480),
        ("vllm_kv_cache_exhaustion_seconds", E, 33.5),
        ("vllm_kv_cache_free_runs", E, 4),
        ("vllm_kv_cache_longest_free_run_blocks", E, 13),
        ("vllm_kv_cache_free_queue_contiguity_ratio", E, 0.45),
        ("vllm_kv_cache_query_tokens_total", E, 900),
        ("vllm_kv_cache_hit_tokens_total", E, 360),
        ("vllm_kv_cache_hit_ratio", E, 0.4),
        ("vllm_kv_cache_evictions_total", E, 19),
        ("vllm_torch_allocated_bytes", W, 380),
        ("vllm_torch_reserved_bytes", W, 500),
        ("vllm_torch_active_bytes", W, 390),
        ("vllm_torch_inactive_split_bytes", W, 15),
        ("vllm_torch_fragmentation_bytes", W, 120),
        ("vllm_torch_fragmentation_ratio", W, 0.24),
        ("vllm_torch_alloc_retries_total", W, 6),
        ("vllm_torch_ooms_total", W, 1),
        ("vllm_torch_largest_free_block_bytes", W, 64),
        ("vllm_torch_oom_margin_bytes", W, 424),
        ("vllm_torch_weights_bytes", W, 170),
        ("vllm_torch_kv_pool_bytes", W, 205),
        ("vllm_rank_imbalance_bytes", {**E, "owner": "weights"}, 12),
        ("vllm_rank_imbalance_bytes", {**E, "owner": "free"}, 31),
        ("vllm_torch_graph_pool_bytes", W, 7),
        ("vllm_torch_device_free_bytes", W, 349),
        ("vllm_torch_device_total_bytes", W, 999),
        ("vllm_plugin_errors_total", E, 1),
        ("vllm_plugin_dropped_records_total", E, 23),
        ("vllm_plugin_seconds_total", E, 0.75),
        (OWN + "replay", {"recording": "tp4"}, 1),
        (OWN + "source_up", {"source": "nvml"}, 1),
        (
            OWN + "source_last_success_timestamp_seconds",
            {"source": "nvml"},
            1_795_960_064.75,
        ),
        (OWN + "source_errors_total", {"source": "nvml", "reason": "gpu_is_lost"}, 4),
        (OWN + "sample_duration_seconds_bucket", {"source": "nvml", "le": "0.01"}, 36),
        (OWN + "sample_duration_seconds_count", {"source": "nvml"}, 38),
        (OWN + "sample_duration_seconds_sum", {"source": "nvml"}, 0.375),
        (OWN + "missed_samples_total", {"source": "nvml"}, 9),
        (OWN + "trace_lines_total", {"outcome": "invalid"}, 3),
        (OWN + "dropped_bytes_total", {}, 1024),
        (OWN + "ledger_incoherent_total", {"reason": "stale"}, 11),
        (OWN + "ledger_incoherent_total", {"reason": "asleep"}, 0),
        (OWN + "capability", {"call": "memory_v2"}, 1),
        (OWN + "capability", {"call": "gpm"}, 0),
        (OWN + "config_last_reload_successful", {}, 1),
        (OWN + "config_last_reload_success_timestamp_seconds", {}, 1_795_960_000.5),
        (OWN + "duplicate_identity", {}, 1),
    ],
)
def test_value(name: str, labels: dict[str, str], value: float) -> None:
    assert FULL[name, frozenset(labels.items())] == value


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        (
            "gpu_info",
            {
                **D,
                "name": "NVIDIA H200",
                "pci_bus_id": "00000000:10:00.0",
                "driver": "570.124.06",
                "memory_kind": "dedicated",
            },
        ),
        (
            "vllm_engine_info",
            {
                **E,
                "block_size": "16",
                "num_gpu_blocks": "41",
                "max_model_len": "",
                "max_num_seqs": "",
                "gpu_memory_utilization": "0.9",
                "cache_dtype": "auto",
                "enable_prefix_caching": "true",
                "tensor_parallel_size": "2",
                "pipeline_parallel_size": "",
                "data_parallel_size": "",
                "kv_connector": "",
                "sleep_level": "",
                "speculative_tokens": "",
            },
        ),
        (
            "vllm_plugin_info",
            {
                **E,
                "vllm_version": "0.19.1",
                "plugin_version": "0.1.0",
                "status": "degraded",
                "reason": "no_free_queue",
            },
        ),
    ],
)
def test_facts_are_labels_of_a_one(name: str, labels: dict[str, str]) -> None:
    assert FULL[name, frozenset(labels.items())] == 1


def test_the_full_view_fills_every_family_but_the_one_of_dropped_series() -> None:
    view = make_view()
    empty = [family.name for family in FAMILIES if not list(family.samples(view))]
    assert empty == [OWN + "dropped_series_total"]


def test_b21_what_is_unknown_is_absent() -> None:
    assert {name for name, _ in BARE} == {
        "gpu_info",
        "gpu_up",
        "vllm_engine_up",
        "vllm_engine_restarts_total",
        OWN + "build_info",
        OWN + "dropped_bytes_total",
        OWN + "duplicate_identity",
    }


def test_a_lost_gpu_and_a_silent_engine_stay_as_0() -> None:
    assert BARE["gpu_up", frozenset(D.items())] == 0
    assert BARE["vllm_engine_up", frozenset(E.items())] == 0


def test_one_lost_gpu_does_not_hide_the_other() -> None:
    lost = replace(gpu_view(0), is_up=False, sample=None)
    series = series_of(make_view(devices=(lost, gpu_view(1))))
    assert [
        dict(labels)["device"] for name, labels in series if name == "gpu_memory_used_bytes"
    ] == ["cuda:1"]
    assert sorted(v for (name, _), v in series.items() if name == "gpu_up") == [0, 1]


def test_c8_blocks_that_are_not_told_apart_are_absent() -> None:
    engine = engine_view()
    assert engine.kv is not None
    assert engine.kv.blocks is not None
    kv = replace(engine.kv, blocks=replace(engine.kv.blocks, cached=None))
    series = series_of(make_view(engines=(replace(engine, kv=kv),)))
    states = {dict(labels)["state"] for name, labels in series if name == "vllm_kv_cache_blocks"}
    assert states == {"active", "null"}


def test_b10_a_process_without_bytes_counts_and_one_without_name_has_an_empty_one() -> None:
    gpu = gpu_view()
    assert gpu.sample is not None
    processes = (ProcessMemory(pid=7), ProcessMemory(pid=8, used_bytes=33))
    sample = replace(gpu.sample, processes=processes)
    series = series_of(make_view(devices=(replace(gpu, sample=sample),)))
    assert series["gpu_processes", frozenset(D.items())] == 2
    sizes = {
        labels: v for (name, labels), v in series.items() if name == "gpu_process_memory_used_bytes"
    }
    assert sizes == {frozenset({**D, "pid": "8", "process_name": ""}.items()): 33}


def test_a_plugin_that_told_nothing_has_no_info() -> None:
    engine = engine_view()
    assert engine.facts is not None
    facts = replace(engine.facts, plugin_version=None, status=None)
    series = series_of(make_view(engines=(replace(engine, facts=facts),)))
    names = {name for name, _ in series}
    assert "vllm_plugin_info" not in names
    assert "vllm_engine_info" in names


def test_a_rank_on_a_gpu_that_nvml_lacks_has_an_empty_device() -> None:
    series = series_of(make_view(ranks=(replace(rank_view(3), device=None),)))
    labels = {**E, "rank": "3", "device": "", "uuid": gpu_uuid(3)}
    assert series["vllm_torch_allocated_bytes", frozenset(labels.items())] == 380


def test_of_a_silent_worker_only_its_counts_are_told() -> None:
    silent = SilentRankView(
        replica="blue-0",
        model_name="Qwen/Qwen3-8B",
        engine="0",
        rank=0,
        device=0,
        uuid=gpu_uuid(0),
        alloc_retries=6,
        ooms=1,
    )
    series = series_of(make_view(ranks=(), silent_ranks=(silent,)))
    of_it = {name: value for (name, labels), value in series.items() if ("rank", "0") in labels}
    assert of_it == {"vllm_torch_alloc_retries_total": 6, "vllm_torch_ooms_total": 1}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_figure_that_is_no_finite_number_is_absent(value: float) -> None:
    series = series_of(make_view(engines=(replace(engine_view(), usage_ratio=value),)))
    assert "vllm_kv_cache_usage_ratio" not in {name for name, _ in series}


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ('we"ird\nname\\', 'we"ird\nname\\'),
        ("π{}=,", "π{}=,"),
        ("cut \udcff off", "cut ? off"),
    ],
    ids=["quote, newline, backslash", "not ASCII", "not UTF-8"],
)
def test_hostile_label_values_survive_both_formats(name: str, shown: str) -> None:
    engine = replace(engine_view(), replica=name)
    registry = Exposition().registry_of(make_view(engines=(engine,)))
    openmetrics, _ = choose_encoder("application/openmetrics-text")
    for families in (
        from_text(generate_latest(registry).decode()),
        from_openmetrics(openmetrics(registry).decode()),  # type: ignore[no-untyped-call]
    ):
        replicas = {
            sample.labels["replica"]
            for family in families
            for sample in family.samples
            if sample.name == "vllm_page_table_pages"
        }
        assert replicas == {shown}


def test_no_created_series() -> None:
    assert "_created" not in text_of(make_view())


def test_the_exporters_own_process_is_told() -> None:
    assert "\nprocess_resident_memory_bytes " in text_of(make_view())
