"""Counters from what each scheduler step hands out: tokens, prefix-cache hits, preemptions.

O(new + still prefilling requests) a step. It keeps ids of requests that are being prefilled, to
tell prompt tokens from generated ones, and hands none on.
"""

from collections.abc import Collection

from exporter.plugin.engine_shapes import (
    KVCacheManager,
    PrefixCacheStats,
    Scheduler,
    SchedulerOutput,
)
from exporter.records.trace import PrefixCache, ScheduledTokens


class FlowCounts:
    """Cumulative since engine start (less the steps while paused).

    Prompt tokens are those scheduled at positions inside the prompt, recomputed ones included;
    all others count as generated, speculative ones too. Source: SchedulerOutput.
    """

    __slots__ = (
        "_has_cache",
        "_has_vllm_counts",
        "_hit",
        "_manager",
        "_prefilling",
        "_prompt",
        "_query",
        "_stats",
        "_stats_seen",
        "_total",
        "_vllm_hit",
        "_vllm_query",
        "preemptions",
    )

    def __init__(self, scheduler: Scheduler) -> None:
        manager = scheduler.kv_cache_manager
        self.preemptions = 0
        self._prompt = 0
        self._total = 0
        self._query = 0
        self._hit = 0
        self._vllm_query = 0
        self._vllm_hit = 0
        self._prefilling: dict[str, int] = {}  # request id → prompt tokens still to be scheduled
        self._manager: KVCacheManager = manager
        self._stats: PrefixCacheStats | None = getattr(manager, "prefix_cache_stats", None)
        self._stats_seen = (0, 0)
        self._has_vllm_counts = self._stats is not None
        self._has_cache = bool(getattr(manager, "enable_caching", True))

    def count(self, scheduler: Scheduler, output: SchedulerOutput) -> None:
        """Take one step into account; raises what a changed layout raises."""
        self._total += output.total_num_scheduled_tokens
        if output.scheduled_new_reqs:
            self._count_new(scheduler, output)
        self._count_resumed(scheduler, output)
        if self._prefilling:
            self._count_prefill(scheduler, output)
        preempted = getattr(output, "preempted_req_ids", None)
        if preempted:
            self.preemptions += len(preempted)
        if self._has_vllm_counts:
            self._count_vllm()

    def resume(self) -> None:
        """Go on after steps that were not counted."""
        self._prefilling.clear()

    def prefix_cache(self) -> PrefixCache | None:
        """Tokens looked up and found; None when prefix caching is off.

        Found = `NewRequestData.num_computed_tokens` less what a KV connector brought; requests
        that were preempted before or that skip the lookup do not count.
        """
        if not self._has_cache:
            return None
        if self._has_vllm_counts:
            return PrefixCache(self._query, self._hit, self._vllm_query, self._vllm_hit)
        return PrefixCache(self._query, self._hit)

    def tokens(self) -> ScheduledTokens:
        """Tokens scheduled so far. Source: `total_num_scheduled_tokens`."""
        return ScheduledTokens(self._prompt, self._total - self._prompt)

    def _count_new(self, scheduler: Scheduler, output: SchedulerOutput) -> None:
        for new in output.scheduled_new_reqs:
            request = scheduler.requests[new.req_id]
            self._expect_prefill(new.req_id, request.num_prompt_tokens - new.num_computed_tokens)
            if getattr(request, "num_preemptions", 0) or getattr(
                request, "skip_reading_prefix_cache", False
            ):
                continue
            self._query += request.num_tokens
            self._hit += new.num_computed_tokens - getattr(
                request, "num_external_computed_tokens", 0
            )

    def _count_resumed(self, scheduler: Scheduler, output: SchedulerOutput) -> None:
        cached = output.scheduled_cached_reqs
        resumed: Collection[str] | None = getattr(cached, "resumed_req_ids", None)
        if resumed is None:  # 0.10.2
            back = cached.resumed_from_preemption
            if True not in back:
                return
            resumed = {key for key, is_back in zip(cached.req_ids, back, strict=True) if is_back}
        if not resumed:
            return
        if not hasattr(output, "preempted_req_ids"):  # before 0.13: counted on return
            self.preemptions += len(resumed)
        for key, computed in zip(cached.req_ids, cached.num_computed_tokens, strict=True):
            if key in resumed:
                self._expect_prefill(key, scheduler.requests[key].num_prompt_tokens - computed)

    def _expect_prefill(self, key: str, tokens: int) -> None:
        if tokens > 0:
            self._prefilling[key] = tokens

    def _count_prefill(self, scheduler: Scheduler, output: SchedulerOutput) -> None:
        prefilling = self._prefilling
        scheduled = output.num_scheduled_tokens
        for key in list(prefilling):
            left = prefilling[key] - scheduled.get(key, 0)
            self._prompt += prefilling[key] - max(left, 0)
            if left > 0:
                prefilling[key] = left
            else:
                del prefilling[key]
        for key in output.finished_req_ids:  # aborted on the way
            prefilling.pop(key, None)
        if len(prefilling) > len(scheduler.requests):
            for key in prefilling.keys() - scheduler.requests.keys():
                del prefilling[key]

    def _count_vllm(self) -> None:
        stats = self._manager.prefix_cache_stats
        if stats is None:
            return
        if self._stats is not stats:  # vLLM took the last one and made a new one
            self._stats = stats
            self._stats_seen = (0, 0)
        seen = (stats.queries, stats.hits)
        if seen != self._stats_seen:
            self._vllm_query += seen[0] - self._stats_seen[0]
            self._vllm_hit += seen[1] - self._stats_seen[1]
            self._stats_seen = seen
