"""The few attributes of vLLM's objects that the probes read, named as vLLM names them.

Private layout, the same in 0.10.2 to 0.32.0; the driven-scheduler test keeps it true. Nothing here
is imported from vLLM: an object that lacks an attribute raises where a guard stands.
"""

from collections.abc import Collection, Mapping, Sequence, Sized
from typing import Protocol


class Block(Protocol):
    """vllm.v1.core.kv_cache_utils.KVCacheBlock."""

    block_id: int
    ref_cnt: int
    _block_hash: object
    next_free_block: "Block | None"


class FreeQueue(Protocol):
    """FreeKVCacheBlockQueue; the fake head and tail have the block id −1."""

    num_free_blocks: int
    fake_free_list_head: Block


class BlockPool(Protocol):
    """vllm.v1.core.block_pool.BlockPool."""

    num_gpu_blocks: int
    blocks: Sequence[Block]
    null_block: Block
    free_block_queue: FreeQueue


class GroupManager(Protocol):
    """SingleTypeKVCacheManager: the block tables of one KV cache group, request id → live list."""

    block_size: int
    req_to_blocks: Mapping[str, Sequence[Block]]


class Coordinator(Protocol):
    """KVCacheCoordinator."""

    single_type_managers: Sequence[GroupManager]


class PrefixCacheStats(Protocol):
    """vLLM's count since it was last taken, in tokens, without requests that were preempted."""

    queries: int
    hits: int


class BlockTables(Protocol):
    """KVCacheBlocks: one sequence of blocks per KV cache group."""

    blocks: Sequence[Sequence[Block]]


class KVCacheManager(Protocol):
    """vllm.v1.core.kv_cache_manager.KVCacheManager."""

    enable_caching: bool
    block_pool: BlockPool
    coordinator: Coordinator
    prefix_cache_stats: PrefixCacheStats | None

    def get_blocks(self, request_id: str) -> BlockTables: ...  # noqa: D102


class Request(Protocol):
    """vllm.v1.request.Request."""

    request_id: str
    num_computed_tokens: int
    num_prompt_tokens: int
    num_tokens: int


class HasBlockSize(Protocol):
    """A spec or a manager of a group; tokens per block."""

    block_size: int


class CacheGroup(Protocol):
    """KVCacheGroupSpec."""

    kv_cache_spec: HasBlockSize


class KVCacheConfig(Protocol):
    """vllm.v1.kv_cache_interface.KVCacheConfig."""

    kv_cache_groups: Sequence[CacheGroup]


class Scheduler(Protocol):
    """vllm.v1.core.sched.scheduler.Scheduler and what inherits from it."""

    requests: Mapping[str, Request]
    running: Sequence[Request]
    waiting: Sized
    kv_cache_config: KVCacheConfig
    kv_cache_manager: KVCacheManager


class NewRequest(Protocol):
    """NewRequestData: a request's first step; in the V2 runner also its return."""

    req_id: str
    num_computed_tokens: int


class CachedRequests(Protocol):
    """CachedRequestData; `resumed_req_ids` since 0.11, before that `resumed_from_preemption`."""

    req_ids: Sequence[str]
    num_computed_tokens: Sequence[int]
    resumed_req_ids: Collection[str]
    resumed_from_preemption: Sequence[bool]


class SchedulerOutput(Protocol):
    """vllm.v1.core.sched.output.SchedulerOutput; `preempted_req_ids` since 0.13."""

    scheduled_new_reqs: Sequence[NewRequest]
    scheduled_cached_reqs: CachedRequests
    num_scheduled_tokens: Mapping[str, int]
    total_num_scheduled_tokens: int
    preempted_req_ids: Collection[str] | None
    finished_req_ids: Collection[str]
