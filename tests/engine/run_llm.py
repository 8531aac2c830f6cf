"""Runs LLM(...) in this process on prompts that share prefixes and prints what came out.

Run by the tests in a process of its own, with and without the plugin; knows nothing of it.
"""

import json
import os
import resource
import sys
from typing import Any

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "WARNING",
}


NO_MORE_ROOM = "--no-more-room"


def main(model: str, *, has_room: bool) -> None:
    """Print one JSON line: the output token ids, and modules of ours that were imported.

    Without room no file can be written any more once the engine is there, as on a full disk.
    """
    os.environ.update(ENVIRONMENT)
    from vllm import LLM, SamplingParams

    options: dict[str, Any] = {
        "model": model,
        "load_format": "dummy",
        "dtype": "bfloat16",
        "max_model_len": 512,
        "max_num_batched_tokens": 512,
        "block_size": 32,
        "num_gpu_blocks_override": 48,
        "enforce_eager": True,
        "distributed_executor_backend": "uni",
        "served_model_name": "small",
    }
    llm = LLM(**options)
    if not has_room:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    shared = list(range(10, 110))
    prompts: list[Any] = [{"prompt_token_ids": [*shared, 200 + i, 300 + i]} for i in range(16)]
    params = SamplingParams(max_tokens=40, temperature=0.0, ignore_eos=True)
    outputs = [list(out.outputs[0].token_ids) for out in llm.generate(prompts, params)]
    line = {"tokens": outputs, "plugin": "exporter.plugin.hooks" in sys.modules}
    sys.stdout.write("\n" + json.dumps(line) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], has_room=NO_MORE_ROOM not in sys.argv)
