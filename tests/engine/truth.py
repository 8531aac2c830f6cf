"""What the trace must say, worked out the plain way from vLLM's public-looking methods."""

from typing import Any

from tests.engine.driver import BLOCK_SIZE


def page_tables(scheduler: Any) -> list[tuple[int, int, int, int]]:
    """Per group: (pages, contiguous, descending, tables), from `get_block_ids` of all requests."""
    manager = scheduler.kv_cache_manager
    null_id = manager.block_pool.null_block.block_id
    groups = len(scheduler.kv_cache_config.kv_cache_groups)
    sums = [[0, 0, 0, 0] for _ in range(groups)]
    for key in scheduler.requests:
        for group, ids in enumerate(manager.get_block_ids(key)):
            row = sums[group]
            has_page = False
            for index, block_id in enumerate(ids):
                if block_id == null_id:
                    continue
                before = ids[index - 1] if index else null_id
                row[0] += 1
                if not has_page or (before != null_id and block_id == before + 1):
                    row[1] += 1
                elif before != null_id and block_id == before - 1:
                    row[2] += 1
                has_page = True
            row[3] += has_page
    return [(row[0], row[1], row[2], row[3]) for row in sums]


def slots(scheduler: Any) -> tuple[int, int]:
    """(allocated, used) token slots of the first group, which is full attention."""
    allocated = used = 0
    for key, request in scheduler.requests.items():
        ids = scheduler.kv_cache_manager.get_block_ids(key)[0]
        allocated += len(ids) * BLOCK_SIZE
        used += min(request.num_computed_tokens, len(ids) * BLOCK_SIZE)
    return allocated, used


def pool(scheduler: Any) -> dict[str, int]:
    """The pool read block by block: free, cached, shared, runs of free ids, queue order."""
    block_pool = scheduler.kv_cache_manager.block_pool
    queue = block_pool.free_block_queue.get_all_free_blocks()
    ids = [block.block_id for block in queue]
    free = set(ids)
    runs: list[int] = []
    for block_id in range(block_pool.num_gpu_blocks):
        if block_id in free:
            if block_id - 1 in free:
                runs[-1] += 1
            else:
                runs.append(1)
    head = ids[:256]
    return {
        "free": len(ids),
        "cached": sum(block.block_hash is not None for block in queue),
        "shared": sum(b.ref_cnt > 1 for b in block_pool.blocks if not b.is_null),
        "runs": len(runs),
        "longest": max(runs, default=0),
        "walked": len(head),
        "contiguous": sum(i == 0 or head[i - 1] + 1 == b for i, b in enumerate(head)),
    }


def scheduled_tokens(scheduler: Any, output: Any) -> tuple[int, int]:
    """(inside the prompt, behind it): where the tokens of one step lie in their requests."""
    prompt = total = 0
    for key, number in output.num_scheduled_tokens.items():
        request = scheduler.requests[key]
        begin = request.num_computed_tokens - number
        prompt += max(0, min(request.num_computed_tokens, request.num_prompt_tokens) - begin)
        total += number
    return prompt, total - prompt
