"""Drives vLLM's real Scheduler without a model: random requests in, made-up tokens back.

Works with the scheduler of every version of the matrix: arguments a version does not know are left
out. Nothing here looks at what the plugin does.
"""

import inspect
import json
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

BLOCK_SIZE = 16
EOS = 2


SMALL = {
    "hidden_size": 256,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "num_hidden_layers": 2,
    "vocab_size": 2048,
    "max_position_embeddings": 2048,
}
LLAMA_3_8B = {
    "hidden_size": 4096,
    "intermediate_size": 14_336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "num_hidden_layers": 32,
    "vocab_size": 128_256,
    "max_position_embeddings": 8192,
}


def write_model(path: Path, shape: Mapping[str, int] = SMALL) -> Path:
    """A folder that vLLM takes for a Llama with a word-level tokenizer; it has no weights."""
    path.mkdir(parents=True, exist_ok=True)
    config = {
        **shape,
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "bos_token_id": 1,
        "eos_token_id": EOS,
        "torch_dtype": "bfloat16",
        "tie_word_embeddings": False,
    }
    vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2} | {
        f"t{i}": i for i in range(3, shape["vocab_size"])
    }
    tokenizer: dict[str, object] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
    }
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "model_max_length": shape["max_position_embeddings"],
    }
    (path / "config.json").write_text(json.dumps(config))
    (path / "tokenizer.json").write_text(json.dumps(tokenizer))
    (path / "tokenizer_config.json").write_text(json.dumps(settings))
    return path


def known(make: Callable[..., Any], **arguments: object) -> Any:
    """Call `make` with those arguments that it, or the class it inherits from, takes."""
    taken = inspect.signature(make).parameters
    if "kwargs" in taken and isinstance(make, type):
        taken = inspect.signature(make.__mro__[1]).parameters
    return make(**{name: value for name, value in arguments.items() if name in taken})


def make_scheduler(
    model: Path,
    *,
    blocks: int = 200,
    max_seqs: int = 32,
    max_tokens: int = 512,
    sliding_window: int | None = None,
    is_async: bool = False,
    log_stats: bool = True,
    caching: bool = True,
) -> Any:
    """A scheduler with a pool of `blocks` blocks of BLOCK_SIZE tokens.

    `sliding_window`: add a second group of that many tokens, as hybrid models have.
    """
    import torch
    from vllm.config import CacheConfig, ModelConfig, SchedulerConfig, VllmConfig
    from vllm.v1.kv_cache_interface import (
        FullAttentionSpec,
        KVCacheConfig,
        KVCacheGroupSpec,
        SlidingWindowSpec,
    )
    from vllm.v1.structured_output import StructuredOutputManager

    if is_async:
        from vllm.v1.core.sched.async_scheduler import AsyncScheduler as Scheduler
    else:
        from vllm.v1.core.sched.scheduler import Scheduler

    model_config = known(
        ModelConfig,
        model=str(model),
        tokenizer=str(model),
        skip_tokenizer_init=True,
        dtype="float16",
        seed=1,
        max_model_len=2048,
        served_model_name="driven",
    )
    scheduler_config = known(
        SchedulerConfig,
        max_num_seqs=max_seqs,
        max_num_batched_tokens=max_tokens,
        max_model_len=2048,
        enable_chunked_prefill=True,
        async_scheduling=is_async,
        is_encoder_decoder=False,
    )
    cache_config = known(
        CacheConfig,
        block_size=BLOCK_SIZE,
        gpu_memory_utilization=0.9,
        swap_space=0,
        cache_dtype="auto",
        enable_prefix_caching=caching,
    )
    config = VllmConfig(
        scheduler_config=scheduler_config, model_config=model_config, cache_config=cache_config
    )
    cache_config.num_gpu_blocks = blocks
    spec = {
        "block_size": BLOCK_SIZE,
        "num_kv_heads": 1,
        "head_size": 1,
        "dtype": torch.float32,
        "use_mla": False,
    }
    groups = [KVCacheGroupSpec(["layer"], known(FullAttentionSpec, **spec))]
    if sliding_window is not None:
        window = known(SlidingWindowSpec, **spec, sliding_window=sliding_window)
        groups.append(KVCacheGroupSpec(["window"], window))
    kv_config = known(KVCacheConfig, num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=groups)
    return known(
        Scheduler,
        vllm_config=config,
        kv_cache_config=kv_config,
        structured_output_manager=StructuredOutputManager(config),
        block_size=BLOCK_SIZE,
        log_stats=log_stats,
    )


class Load:
    """A seeded stream of requests: shared prefixes, random lengths, aborts."""

    def __init__(self, seed: int, *, prefixes: int = 6, longest: int = 400) -> None:
        self.random = random.Random(seed)
        self.finished = 0
        self._seed = seed
        self._longest = longest
        self._prefixes = [
            [self.random.randrange(3, 2000) for _ in range(self.random.randrange(32, 200))]
            for _ in range(prefixes)
        ]
        self._number = 0
        self._hasher = _block_hasher()

    def request(self, prompt: int | None = None, output: int | None = None) -> Any:
        """The next request; lengths in tokens, random when None."""
        from vllm import SamplingParams
        from vllm.v1.request import Request

        rnd = self.random
        tokens = list(rnd.choice(self._prefixes)) if rnd.random() < 0.7 else []
        more = prompt if prompt is not None else rnd.randrange(1, self._longest // 2)
        tokens += [rnd.randrange(3, 2000) for _ in range(more)]
        length = output if output is not None else rnd.randrange(1, self._longest)
        params = SamplingParams(max_tokens=length, ignore_eos=True)
        if hasattr(params, "update_from_generation_config"):
            params.update_from_generation_config({}, EOS)
        self._number += 1
        return known(
            Request,
            request_id=f"request-{self._seed}-{self._number}",
            prompt_token_ids=tokens,
            sampling_params=params,
            pooling_params=None,
            eos_token_id=EOS,
            block_hasher=self._hasher,
        )


def _block_hasher() -> Any:
    from vllm.v1.core import kv_cache_utils

    try:
        from vllm.utils.hashing import sha256
    except ImportError:  # before 0.11
        from vllm.utils import sha256
    kv_cache_utils.init_none_hash(sha256)
    return kv_cache_utils.get_request_block_hasher(BLOCK_SIZE, sha256)


class _Tokens(list[int]):
    """A list that also is what 0.11 takes, a numpy array."""

    def tolist(self) -> list[int]:
        return list(self)


def answer(scheduler: Any, output: Any, rnd: random.Random) -> Any:
    """What a model runner would give back for `output`: one made-up token per finished prompt."""
    from vllm.v1.outputs import ModelRunnerOutput

    ids = list(output.num_scheduled_tokens)
    requests = scheduler.requests
    tokens: list[Any] = []
    for key in ids:
        request = requests.get(key)
        is_done = request is not None and request.num_computed_tokens >= request.num_tokens
        tokens.append(_Tokens([rnd.randrange(3, 2000)] if is_done else []))
    return known(
        ModelRunnerOutput,
        req_ids=ids,
        req_id_to_index={key: i for i, key in enumerate(ids)},
        sampled_token_ids=tokens,
        spec_token_ids=None,
        logprobs=None,
        prompt_logprobs_dict={},
        pooler_output=[],
    )


def drive(scheduler: Any, load: Load, steps: int, *, busy: int = 40) -> Iterator[Any]:
    """Run `steps` steps and yield each SchedulerOutput before its result is handed back.

    Keeps about `busy` requests alive, aborts one now and then. A scheduler that is asynchronous
    gets its results one step late, as the engine does it.
    """
    from vllm.v1.request import RequestStatus

    rnd = load.random
    pending: deque[Any] = deque()
    depth = 2 if type(scheduler).__name__ == "AsyncScheduler" else 1
    for _ in range(steps):
        while len(scheduler.requests) < busy:
            scheduler.add_request(load.request())
        if rnd.random() < 0.03:
            key = rnd.choice(list(scheduler.requests))
            scheduler.finish_requests(key, RequestStatus.FINISHED_ABORTED)
        output = scheduler.schedule()
        yield output
        pending.append((output, answer(scheduler, output, rnd)))
        if len(pending) >= depth:
            scheduler.update_from_output(*pending.popleft())
    while pending:
        scheduler.update_from_output(*pending.popleft())
