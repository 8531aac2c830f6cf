"""How many series each query gives on each node of the stage, counted by hand.

In the order of `JOBS`. fake has 8 GPUs, engine blue with 2 workers and green with 1, all in one
trace; exhaustion is one GPU, engine and worker; tp4 is 4 GPUs with one engine of 4 workers. What a
recording does not tell at that moment is absent: see each line.
"""

from collections.abc import Mapping
from typing import get_args

from exporter.records.ledger import LedgerReason

JOBS = ("fake", "exhaustion", "tp4")
Counts = tuple[int, int, int]

NODE: Counts = (1, 1, 1)
GPUS: Counts = (8, 1, 4)
SERVING_GPUS: Counts = (3, 1, 4)  # an engine is on them
ENGINES: Counts = (2, 1, 1)
WORKERS: Counts = (3, 1, 4)
VLLM_ENGINES: Counts = (4, 4, 4)  # new 1, pair 2, old 1, whatever node is chosen
SOURCES: Counts = (5, 0, 0)  # nvml, nvml_{events,gpm,slow}, trace; a recording is no source
BUCKETS: Counts = (14, 14, 14)  # 13 bounds and +Inf


def times(number: int, counts: Counts) -> Counts:
    fake, exhaustion, tp4 = counts
    return number * fake, number * exhaustion, number * tp4


def only(fake: bool, exhaustion: bool, tp4: bool, counts: Counts) -> Counts:
    """The counts on those nodes that tell the figure at all."""
    told = (fake, exhaustion, tp4)
    one, two, three = (n if is_told else 0 for n, is_told in zip(counts, told, strict=True))
    return one, two, three


def not_of_tp4(counts: Counts) -> Counts:
    """Tokens, evictions, slots, peaks and shared blocks: tp4 was recorded without the plugin."""
    return only(True, True, False, counts)


def not_when_full(counts: Counts) -> Counts:
    """Free runs and look-ups: none while the pool of exhaustion is full."""
    return only(True, False, True, counts)


def while_moving(counts: Counts) -> Counts:
    """Ratios of two rates: 0 / 0 on the recordings, which stand still."""
    return only(True, False, False, counts)


def of_the_driver(counts: Counts) -> Counts:
    """Health: the recordings do not have it."""
    return only(True, False, False, counts)


OWNERS: Counts = (13, 12, 10)
"""fake cuda:0: driver_reserved, free, unattributed, other_processes, weights, kv_active, kv_cached,
kv_free, kv_null, graph_pool, torch_other, allocator_slack, non_torch. exhaustion: kv_unsplit for
kv_cached and kv_free. tp4: weights and graph_pool in torch_other as well."""

OBJECTIVES: Mapping[str, Counts] = {
    "Burn rate of first tokens / A": NODE,
    **{f"First tokens, burn rate over time / {letter}": NODE for letter in "ABCD"},  # one model
    "Burn rate of requests / A": NODE,
    **{f"Requests, burn rate over time / {letter}": NODE for letter in "ABCD"},
}

FLEET: Mapping[str, Counts] = {
    "Exporters / A": NODE,
    "GPUs / A": NODE,
    "GPUs lost / A": NODE,
    "Engines silent / A": NODE,
    "Highest effective pressure / A": NODE,
    "GPUs over 0.98 / A": NODE,
    "Requests waiting / A": NODE,
    "Preemptions per second / A": NODE,
    "Conflicts in 10 minutes / A": NODE,
    "Least out-of-memory margin / A": not_of_tp4(NODE),
    "Tokens per second / A": not_of_tp4(NODE),
    "Power / A": NODE,
    **OBJECTIVES,
    "Effective pressure / A": NODE,
    "Effective pressure / B": times(2, NODE),  # quantiles 0.5 and 0.95
    "Device pressure / A": NODE,
    "Device pressure / B": times(2, NODE),
    "GPUs and nodes over a threshold / A": times(2, NODE),  # 0.9 and 0.98
    "GPUs and nodes over a threshold / B": times(2, NODE),
    "Effective pressure, all samples / A": BUCKETS,
    "Device pressure, all samples / A": BUCKETS,
    **{f"Models / {letter}": NODE for letter in "ABCDEFG"},  # one model on each node
    "Models / H": not_of_tp4(NODE),
    "Models / I": while_moving(NODE),
    **{f"Nodes / {letter}": NODE for letter in "ABCDEFGI"},
    "Nodes / H": not_of_tp4(NODE),
    "Memory by owner / A": OWNERS,
    **{f"Total, used, and used for requests / {letter}": NODE for letter in "ABC"},
    "Allocator gap / reserved / A": NODE,
    "Largest allocator gap / A": NODE,
    "Least out-of-memory margin over time / A": not_of_tp4(NODE),
    "Tokens per second over time / A": not_of_tp4(NODE),
    "Tokens per second over time / B": not_of_tp4(NODE),
    "GPU busy / A": NODE,
    "Requests and preemptions / A": times(2, NODE),  # running, waiting
    "Requests and preemptions / B": NODE,
    "Prefix-cache hit ratio / A": while_moving(NODE),
    "Conflicts / A": times(3, NODE),  # co_tenant, pressure, margin
}

GPU: Mapping[str, Counts] = {
    "Highest effective pressure / A": NODE,
    "Highest device pressure / A": NODE,
    "Least out-of-memory margin / A": not_of_tp4(NODE),
    "Least headroom / A": NODE,
    "GPUs lost / A": NODE,
    "Conflicts in this time range / A": NODE,
    "Device pressure, GPU by GPU / A": GPUS,
    "Effective pressure, GPU by GPU / A": SERVING_GPUS,
    "Device pressure, all samples / A": BUCKETS,
    "Effective pressure, all samples / A": BUCKETS,
    "Where the memory of $device went / A": OWNERS,  # of cuda:0
    "Owners now, all selected GPUs / A": (12, 12, 10),  # fake: unattributed is 0 everywhere
    "Used, and used for requests / A": GPUS,
    "Used, and used for requests / B": SERVING_GPUS,
    "Allocator gap / A": WORKERS,
    "Allocator gap / reserved / A": WORKERS,
    "Out-of-memory margin / A": not_of_tp4(WORKERS),
    "Allocation retries and out-of-memory errors / A": WORKERS,
    "Allocation retries and out-of-memory errors / B": WORKERS,
    "Headroom in tokens / A": ENGINES,
    "Time until the KV pool is full / A": only(False, True, True, ENGINES),  # fake stands still
    "MIG devices, used / A": (2, 0, 0),  # of GPU 6
    "Uneven ranks / A": (10, 0, 8),  # of blue: 6 parts, 2 sums, 2 of the GPU; tp4: not OWNERS' two
    "Processes on the GPUs / A": (4, 2, 6),  # tp4: 4 workers, and one process on 2 GPUs
    "Processes on the GPUs / B": (4, 2, 6),
    "Conflicts / A": times(3, SERVING_GPUS),
    "Memory bandwidth / A": of_the_driver(GPUS),
    "Multiprocessors and tensor cores / A": of_the_driver(GPUS),
    "Multiprocessors and tensor cores / B": of_the_driver(GPUS),
    "Memory controller utilization / A": GPUS,
    "GPU utilization / A": GPUS,
    "Power / A": GPUS,
    "Power / B": of_the_driver(GPUS),
    "GPUs held back, by reason / A": (5, 5, 0),  # 9 reasons less 4 that hold nothing back
    "Temperature / A": (16, 2, 4),  # gpu and memory; tp4 recorded gpu alone
    "Driver errors (Xid) / A": (1, 0, 0),  # 79, of GPU 7
    "New memory errors (ECC) / A": times(4, of_the_driver(GPUS)),
    "Remapped rows / A": times(4, of_the_driver(GPUS)),
    "NVLink traffic / A": of_the_driver(GPUS),
    "NVLink traffic / B": of_the_driver(GPUS),
    "Errors on links / A": of_the_driver(GPUS),
    "Errors on links / B": of_the_driver(GPUS),  # replay; the others are not told
    "Sources / A": SOURCES,
    "Age of the last good read / A": SOURCES,
    "Errors and missed samples / A": (0, 0, 0),  # there has been none
    "Errors and missed samples / B": SOURCES,
    "Ledgers told coarsely / A": times(len(get_args(LedgerReason)), NODE),
    "The plugin in the engines / A": not_of_tp4(ENGINES),
}

KV: Mapping[str, Counts] = {
    "Highest KV usage / A": NODE,
    "Least headroom / A": NODE,
    "Full in / A": only(False, True, True, NODE),
    "Requests waiting / A": NODE,
    "Preemptions in this time range / A": NODE,
    "Prefix-cache hit ratio / A": while_moving(NODE),
    "KV usage / A": ENGINES,
    "KV usage / B": ENGINES,
    "KV blocks by state / A": (8, 2, 2),  # the recordings do not tell cached from free here
    "Headroom / A": ENGINES,
    "Time until the pool is full / A": only(False, True, True, ENGINES),
    "Requests running and waiting / A": times(2, ENGINES),
    "Preemptions / A": ENGINES,
    "Evictions per second / A": not_of_tp4(ENGINES),
    **OBJECTIVES,
    **{f"Time to first token / {letter}": VLLM_ENGINES for letter in "ABC"},
    **{f"Time between tokens / {letter}": VLLM_ENGINES for letter in "ABC"},
    "Waiting, by reason / A": (7, 7, 7),  # capacity and deferred of 3 engines, any of old
    "Preemptions as vLLM counts them / A": VLLM_ENGINES,
    "KV usage as vLLM tells it / A": VLLM_ENGINES,
    "Tokens per second / A": not_of_tp4(ENGINES),
    "Tokens per second / B": not_of_tp4(ENGINES),
    "GPU busy / A": GPUS,
    "GPU memory / A": GPUS,
    "Hit ratio / A": not_when_full(ENGINES),
    "Tokens looked up and found per second / A": ENGINES,
    "Tokens looked up and found per second / B": ENGINES,
    "Contiguity / A": ENGINES,
    **{f"Pages, contiguous and descending / {letter}": ENGINES for letter in "ABC"},
    "Extents and tables / A": ENGINES,
    "Extents and tables / B": ENGINES,
    "Free runs / A": not_when_full(ENGINES),
    "Free runs / B": not_when_full(ENGINES),
    "Order of the free queue / A": not_when_full(ENGINES),
    "Unused slots in blocks / A": not_of_tp4(ENGINES),
    "Token slots / A": times(2, not_of_tp4(ENGINES)),
    "Shared blocks / A": not_of_tp4(ENGINES),
}

EXPECTED: Mapping[str, Counts] = {
    f"{board} / {place}": counts
    for board, places in (("fleet", FLEET), ("gpu", GPU), ("kv", KV))
    for place, counts in places.items()
}
