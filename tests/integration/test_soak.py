"""Hours of a busy machine in seconds: what is remembered does not grow."""

import gc
import tracemalloc
from itertools import pairwise
from statistics import median

from exporter.clock import ManualClock
from exporter.pipeline import Pipeline
from exporter.records.trace import PageTable, PrefixCache
from exporter.views.metrics.exposition import Exposition
from exporter.views.metrics.text_format import text_format
from tests.readings import (
    START_UNIX_NS,
    blocks,
    device,
    device_reading,
    facts,
    kv,
    torch,
    trace_reading,
)

TICKS = 2400  # at 500 ms: 20 minutes, and an engine that starts anew every 100 s
SETTLED = 1400  # the windows are full, and the forgetting of silent processes has begun


def test_b19_memory_is_flat_once_the_windows_are_full() -> None:
    clock, exposition, wanted = ManualClock(START_UNIX_NS), Exposition(), text_format("")
    pipeline = Pipeline(clock, 0.5)
    sizes: list[int] = []
    tracemalloc.start()
    for tick in range(TICKS):
        at_s, pid = tick / 2, 10 + 2 * (tick // 200)
        active = tick * 7 % 100
        pipeline.offer(device_reading(device(used_bytes=300 + active), at_s=at_s))
        pipeline.offer(
            trace_reading(
                kv(
                    at_s,
                    pid=pid,
                    blocks=blocks(active),
                    page_table=PageTable(num_pages=active + 1, contiguous_pages=active // 2 + 1),
                    prefix_cache=PrefixCache(query_tokens=tick, hit_tokens=tick // 3),
                ),
                torch(at_s, pid=pid + 1, reserved_bytes=200, allocated_bytes=active),
                facts(at_s, pid=pid),
            )
        )
        view = pipeline.tick()
        clock.advance(0.5)
        if tick % 10 == 0:
            exposition.render(view, wanted)
        if tick >= SETTLED and tick % 100 == 0:
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    # A single step is some cache of the test run; what each tick left would be in every hundred.
    assert median(later - former for former, later in pairwise(sizes)) < 100 * 8
