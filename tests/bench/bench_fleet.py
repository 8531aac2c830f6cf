"""Fleet board at 1,000 nodes × 8 GPUs × 6 h at 15 s: its queries with and without recording rules.

Run as ``python -m tests.bench.bench_fleet``; takes about ten minutes and 15 GB of disk for a while.
One real node (8 GPUs of the stand-in driver, two engines, the rules loaded) is scraped by a real
Prometheus; its series, renamed, are those of every node. Per-GPU series that are left out because
there are too many for this machine are named; queries that would need them are not compared.
"""

import argparse
import json
import re
import statistics
import tempfile
import time
import urllib.error
from dataclasses import dataclass
from pathlib import Path

from tests.bench.fleet_blocks import BLOCK_S, Series, Span, fleet, write_blocks
from tests.bench.unrecorded import Rule, recording_rules, unrecorded
from tests.dashboards.boards import Query, panel_queries
from tests.dashboards.known_series import RULES
from tests.dashboards.stage import staged
from tests.fake_nvml import build
from tests.prometheus import Prometheus, configured_prometheus

STEP_S = 15
PANEL_STEP_S = 30  # what Grafana asks for 6 h on a panel of about 720 points
TOO_MANY = ("gpu_memory_ledger_bytes", "gpu_memory_pressure_sample_ratio_bucket",
            "gpu_memory_effective_pressure_sample_ratio_bucket")  # fmt: skip
ROUNDS = 3
ONCE_FROM_S = 2.0
LIMIT_S = 1.0
_NAME = re.compile(r"[a-zA-Z_:][\w:]*")


@dataclass(frozen=True)
class Timing:
    """Median seconds of one query; None: the server refused it."""

    query: str
    seconds: float | None


def main() -> None:
    """Print series counts, the time of each panel both ways, and of the rules' evaluation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--hours", type=int, default=6, help="a multiple of 2")
    arguments = parser.parse_args()
    rules = recording_rules(RULES)
    queries = [query for query in panel_queries() if query.board == "vllm-memory-fleet"]
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        node = node_series(directory)
        print_counts(node, arguments.nodes)
        end_s = int(time.time()) // BLOCK_S * BLOCK_S
        span = Span(end_s - 3600 * arguments.hours, end_s, STEP_S)
        kept = list(fleet(needed(node, queries, rules), arguments.nodes))
        begin = time.perf_counter()
        (directory / "fleet").mkdir()
        samples = write_blocks(kept, span, directory / "fleet/data")
        print(f"blocks: {len(kept):,} series, {samples:,} samples,"
              f" {time.perf_counter() - begin:.0f} s")  # fmt: skip
        flags = ("--storage.tsdb.max-block-duration=2h", "--query.timeout=60s")
        with configured_prometheus("{}", directory / "fleet", *flags) as server:
            server.wait_for(f"count(gpu_up @ {end_s - STEP_S})")
            compare(server, queries, rules, span)
            evaluate(server, rules, {series.name for series in kept}, end_s - STEP_S)


def node_series(directory: Path) -> list[Series]:
    """Every series of one real node and of one vLLM job, recorded ones too."""
    stage = directory / "stage"
    stage.mkdir()
    with staged(build(stage), stage) as server:
        server.wait_for("job_model:vllm_time_to_first_token_slo_burn:ratio_rate5m")
        server.wait_for('job:vllm_kv_cache_hits_per_query:ratio_rate5m{job="fake"}')
        answer = server.ask("query", query='{__name__=~".+",job=~"fake|vllm"}')
    series = (Series(one["metric"], float(one["value"][1])) for one in answer)
    return [one for one in series if one.labels["job"] == "fake" or "instance" not in one.labels]


def print_counts(node: list[Series], nodes: int) -> None:
    """How many series a node has, and how many the rules add to it and to the fleet."""
    raw = [series for series in node if ":" not in series.name]
    per_node = [s for s in node if ":" in s.name and "instance" in s.labels]
    fleet_wide = [s for s in node if "instance" not in s.labels]
    print(f"series of a node: {len(raw)} scraped, {len(per_node)} recorded;"
          f" of the fleet: {len(fleet_wide)} recorded")  # fmt: skip
    print(f"{nodes} nodes: {nodes * len(raw):,} scraped,"
          f" {nodes * len(per_node) + len(fleet_wide):,} recorded")  # fmt: skip


def needed(node: list[Series], queries: list[Query], rules: list[Rule]) -> list[Series]:
    """The series that the queries read, recorded and written out, less what is too many."""
    names: set[str] = set()
    for query in queries:
        names.update(_NAME.findall(query.expr))
        names.update(_NAME.findall(unrecorded(query.expr, rules)))
    names.difference_update(TOO_MANY)
    return [series for series in node if series.name in names]


def compare(server: Prometheus, queries: list[Query], rules: list[Rule], span: Span) -> None:
    """Each query as the board asks it and written out, in turn."""
    with_rules: list[Timing] = []
    without: list[Timing] = []
    left_out = 0
    for query in queries:
        expr = query.with_values()
        with_rules.append(Timing(expr, timed(server, query, expr, span)))
        raw = unrecorded(expr, rules)
        if raw == expr or any(name in raw for name in (*TOO_MANY, "vllm:")):
            left_out += 1
            continue
        without.append(Timing(raw, timed(server, query, raw, span)))
    print_timings("with the rules", with_rules)
    print_timings("without", without)
    print(f"not compared without the rules, for want of their raw series: {left_out} queries")
    slowest = max(timing.seconds or LIMIT_S for timing in with_rules)
    if slowest > LIMIT_S:
        raise SystemExit(f"above the limit of {LIMIT_S} s")


def timed(server: Prometheus, query: Query, expr: str, span: Span) -> float | None:
    """Median of some rounds, a slow query once; None when the server refuses it."""
    seconds = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        try:
            if query.is_instant:
                answer = server.ask("query", query=expr, time=f"{span.end_s - STEP_S}")
            else:
                answer = server.ask(
                    "query_range", query=expr, step=f"{PANEL_STEP_S}",
                    start=f"{span.begin_s}", end=f"{span.end_s - STEP_S}",
                )  # fmt: skip
        except urllib.error.HTTPError as refused:
            print(f"refused: {json.load(refused)['error']}: {expr[:100]}")
            return None
        if not answer:
            raise SystemExit(f"no answer to {expr}: the fleet is not what this bench is about")
        seconds.append(time.perf_counter() - begin)
        if seconds[0] > ONCE_FROM_S:
            break
    return statistics.median(seconds)


def print_timings(title: str, timings: list[Timing]) -> None:
    """Sum, median and the slowest three."""
    told = sorted((t.seconds, t.query) for t in timings if t.seconds is not None)
    refused = len(timings) - len(told)
    seconds = [one for one, _ in told]
    print(f"{title}: {len(timings)} queries, {refused} refused, sum {sum(seconds):.2f} s,"
          f" median {statistics.median(seconds):.3f} s")  # fmt: skip
    for one, query in reversed(told[-3:]):
        print(f"  {one:7.3f} s  {' '.join(query.split())[:110]}")


def evaluate(server: Prometheus, rules: list[Rule], present: set[str], at_s: int) -> None:
    """What one evaluation of the rules takes whose series are there."""
    total_s, rows = 0.0, 0
    for rule in rules:
        asked = {
            n
            for n in _NAME.findall(unrecorded(rule.expr, rules))
            if n.endswith(
                ("_bytes", "_ratio", "_total", "_up", "_bucket", "_watts", "_info", "_tokens")
            )
        }
        if not asked or not asked <= present:
            continue
        begin = time.perf_counter()
        server.ask("query", query=rule.expr, time=f"{at_s}")
        total_s += time.perf_counter() - begin
        rows += 1
    print(f"one evaluation of {rows} of {len(rules)} recording rules: {total_s:.2f} s")


if __name__ == "__main__":
    main()
