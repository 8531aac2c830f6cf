"""Drives the scheduler of whatever vLLM comes first on the path and prints one JSON line of facts.

Run by versions.py in a process of its own, once per version.
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

from tests.engine import truth
from tests.engine.driver import Load, drive, write_model
from tests.engine.tapped import Tapped

STEPS = 500
MISTRAL_MODULES = (
    "",
    ".protocol",
    ".protocol.instruct",
    ".protocol.instruct.request",
    ".protocol.instruct.tool_calls",
    ".protocol.instruct.validator",
    ".tokens",
    ".tokens.tokenizers",
    ".tokens.tokenizers.base",
    ".tokens.tokenizers.instruct",
    ".tokens.tokenizers.sentencepiece",
    ".tokens.tokenizers.tekken",
)
ENGINES: tuple[dict[str, Any], ...] = (
    {},
    {"blocks": 80},
    {"sliding_window": 64},
    {"is_async": True},
)


def check(options: dict[str, Any], model: Path) -> dict[str, Any]:
    """Drive one engine; how many samples were compared and how many differed."""
    tapped = Tapped(model, **options)
    scheduler = tapped.scheduler
    samples = wrong = 0
    for step, _ in enumerate(drive(scheduler, Load(seed=4), STEPS)):
        for record in tapped.take():
            samples += 1
            groups = truth.page_tables(scheduler)
            table, slots, blocks = record.page_table, record.slots, record.blocks
            is_equal = (
                table is not None
                and slots is not None
                and blocks is not None
                and (
                    table.num_pages,
                    table.contiguous_pages,
                    table.descending_pages,
                    table.tables,
                )
                == tuple(sum(column) for column in zip(*groups, strict=True))
                and (slots.allocated, slots.used) == truth.slots(scheduler)
                and blocks.num_free == scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
            )
            wrong += not is_equal
        if step % 5 == 3:
            tapped.pass_time()
    (record,) = tapped.sample_now()
    facts = tapped.tap.facts(0, 0)
    cache = record.prefix_cache
    return {
        "options": options,
        "samples": samples,
        "wrong": wrong,
        "status": facts.status,
        "reason": facts.reason,
        "missing": [name for name, is_on in (facts.capabilities or {}).items() if not is_on],
        "errors": facts.errors,
        "preemptions": record.preemptions,
        "evictions": record.evictions,
        "hits": None if cache is None else [cache.hit_tokens, cache.query_tokens],
        "vllm_hits": None if cache is None else [cache.vllm_hit_tokens, cache.vllm_query_tokens],
    }


def fit_environment() -> None:
    """Give old versions what they ask the newer environment for; no scheduler needs it."""
    import torch
    import transformers  # noqa: F401 (looks for mistral_common itself: before the stand-in)

    if not hasattr(torch._C._cpu, "_is_avx512_supported"):  # 0.17.1
        torch._C._cpu._is_avx512_supported = lambda: False
    for name in MISTRAL_MODULES:  # 0.15.1
        sys.modules.setdefault(f"mistral_common{name}", MagicMock())
    from vllm.model_executor.models import registry

    registry._run_in_subprocess = lambda inspect: inspect()  # a subprocess would lack all this


def main() -> None:
    """Print the facts of all engines that this version has."""
    fit_environment()
    start = time.monotonic()
    model = write_model(Path(tempfile.mkdtemp()) / "model")
    results = []
    for options in ENGINES:
        try:
            results.append(check(options, model))
        except ModuleNotFoundError as exc:
            if exc.name != "vllm.v1.core.sched.async_scheduler":
                raise
    import vllm

    line = {
        "version": vllm.__version__,
        "path": vllm.__path__[0],
        "seconds": round(time.monotonic() - start, 1),
        "engines": results,
    }
    sys.stdout.write("\n" + json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
