"""The cap on a family's series: which stay, and how the others are counted."""

from exporter.views.metrics.exposition import Exposition
from tests.views import gpu_view, make_view

NAME = "gpu_process_memory_used_bytes"


def collected(exposition: Exposition, published_monotonic_s: float) -> tuple[list[str], float]:
    """The pids that are shown, and how many series were dropped so far."""
    view = make_view(devices=(gpu_view(processes=5),), published_monotonic_s=published_monotonic_s)
    families = {f.name: f.samples for f in exposition.registry_of(view).collect()}
    pids = [sample.labels["pid"] for sample in families[NAME]]
    dropped = families.get("vllm_memory_exporter_dropped_series", [])
    return pids, sum(sample.value for sample in dropped if sample.labels["family"] == NAME)


def test_b4_the_first_series_stay_and_the_rest_is_counted() -> None:
    assert collected(Exposition(max_series=3), 1.0) == (["4100", "4101", "4102"], 2)


def test_a_family_just_at_its_cap_loses_nothing() -> None:
    assert collected(Exposition(max_series=5), 1.0) == (
        ["4100", "4101", "4102", "4103", "4104"],
        0,
    )


def test_a_view_counts_once_however_often_it_is_collected() -> None:
    exposition = Exposition(max_series=3)
    totals = [collected(exposition, at)[1] for at in (1.0, 1.0, 1.5, 1.0, 2.0)]
    assert totals == [2, 2, 4, 4, 6]
