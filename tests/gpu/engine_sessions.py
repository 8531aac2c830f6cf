"""One vLLM engine with the plugin on a GPU: sessions worth recording, then what the plugin costs.

Usage: python -m tests.gpu.engine_sessions MODEL OUT [--pairs-64 60] [--pairs-16 30] [--small]
MODEL is a folder with a config and no weights. Records churn in the pool, KV exhaustion with
preemptions and a co-tenant, and idling to OUT/sessions.jsonl with the product itself, and puts the
last records beside what torch and vLLM say in OUT/truth.json. Then writes OUT/overhead_*.json
after every pair of blocks: throughput with the plugin sampling and paused, in ABBA order inside
one engine.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.gpu.abba import ratio_with_interval

BLOCK_S = 3.7
PAUSE_TAKES_S = 0.4  # the plugin looks for its pause file four times a second
COTENANT_GIB = 7.5


class Engine:
    """The engine and made-up prompts for it."""

    def __init__(self, model: str, options: dict[str, Any], vocabulary: int) -> None:
        from vllm import LLM  # type: ignore[import-not-found,unused-ignore]

        self._vocabulary = vocabulary
        self._random = random.Random(1)
        self.llm = LLM(
            model=model, load_format="dummy", dtype="bfloat16", skip_tokenizer_init=True,
            disable_log_stats=False, **options,
        )  # fmt: skip

    def tokens(self, count: int) -> list[int]:
        return [self._random.randrange(3, self._vocabulary) for _ in range(count)]

    def prompts(self, count: int, length: int, prefixes: list[list[int]] | None = None) -> Any:
        """`count` prompts of about `length` own tokens, each behind one of the prefixes."""
        return [
            {
                "prompt_token_ids": (self._random.choice(prefixes) if prefixes else [])
                + self.tokens(self._random.randint(length // 2, length) if prefixes else length)
            }
            for _ in range(count)
        ]

    def run(self, prompts: Any, lowest_out: int, highest_out: int) -> tuple[int, float]:
        """Generate; output tokens and seconds."""
        from vllm import SamplingParams

        params = [
            SamplingParams(
                max_tokens=self._random.randint(lowest_out, highest_out),
                ignore_eos=True,
                detokenize=False,
                temperature=1.0,
            )
            for _ in prompts
        ]
        started_s = time.perf_counter()
        outputs = self.llm.generate(prompts, params, use_tqdm=False)
        seconds = time.perf_counter() - started_s
        return sum(len(output.outputs[0].token_ids) for output in outputs), seconds


def overhead(
    engine: Engine, pause: Path, concurrent: int, pairs: int, prompt: int, report: Path
) -> dict[str, Any]:
    """Throughput in blocks of about BLOCK_S, the plugin sampling (A) and paused (B): A B B A …"""
    prompts = engine.prompts(concurrent, prompt)
    engine.run(prompts, 16, 16)
    tokens, seconds = engine.run(prompts, 64, 64)
    out = max(32, int(64 * BLOCK_S / seconds))
    blocks: list[tuple[str, float]] = []
    result: dict[str, Any] = {}
    for pair in range(pairs):
        for arm in ("AB", "BA")[pair % 2]:
            if arm == "B":
                pause.touch()
            else:
                pause.unlink(missing_ok=True)
            engine.llm.reset_prefix_cache()
            time.sleep(PAUSE_TAKES_S)
            tokens, seconds = engine.run(prompts, out, out)
            blocks.append((arm, tokens / seconds))
        ratios = [
            dict(blocks[start : start + 2])["A"] / dict(blocks[start : start + 2])["B"]
            for start in range(0, len(blocks), 2)
        ]
        mean, low, high = ratio_with_interval(ratios)
        result = {
            "concurrent": concurrent, "pairs": len(ratios), "output_tokens_per_request": out,
            "ratio": mean, "interval_95": [low, high],
            "median_tokens_per_s": {
                arm: statistics.median(rate for name, rate in blocks if name == arm)
                for arm in "AB"
            },
            "ratios": ratios,
        }  # fmt: skip
        report.write_text(json.dumps(result))
    pause.unlink(missing_ok=True)
    return result


def sessions(engine: Engine, out: Path, trace: Path, scale: float) -> None:
    """Load worth looking at, recorded by the product; phases.json says when what happened."""
    phases: list[tuple[float, str]] = []

    def phase(name: str) -> None:
        phases.append((time.time(), name))
        (out / "phases.json").write_text(json.dumps(phases))

    def scaled(count: int) -> int:
        return max(2, int(count * scale))

    recorder = record(out / "sessions.jsonl", trace, "500ms")
    time.sleep(3)
    prefixes = [engine.tokens(scaled(length)) for length in (256, 512, 1024, 1536, 2048)]
    phase("churn: short requests")
    engine.run(engine.prompts(scaled(192), scaled(900), prefixes), scaled(32), scaled(400))
    phase("churn: long prompts until the pool has wrapped")
    engine.run(engine.prompts(scaled(230), scaled(4600)), scaled(8), scaled(48))
    phase("churn: short requests again")
    engine.run(engine.prompts(scaled(192), scaled(900), prefixes), scaled(32), scaled(400))
    phase("exhaustion: more than the pool holds, long outputs")
    quick_recorder = record(out / "exhaustion_100ms.jsonl", trace, "100ms")
    cotenant = subprocess.Popen(
        [
            sys.executable,
            str(Path(__file__).with_name("cotenant.py")),
            str(COTENANT_GIB),
            "34",
            "16",
        ],
        stdout=(out / "cotenant.txt").open("w"),
    )
    engine.run(engine.prompts(scaled(256), scaled(3000)), scaled(1000), scaled(1500))
    phase("idle")
    time.sleep(12)
    cotenant.wait(120)
    phase("end")
    quick_recorder.terminate()
    quick_recorder.wait(30)
    truth(engine, out, trace)
    recorder.terminate()
    recorder.wait(30)


def record(path: Path, trace: Path, interval: str) -> subprocess.Popen[bytes]:
    """The product's own recorder."""
    command = [sys.executable, "-m", "exporter", "record", "--trace.path", str(trace)]
    return subprocess.Popen([*command, "--nvml.interval", interval, "--output", str(path)])


def truth(engine: Engine, out: Path, trace: Path) -> None:
    """What torch and vLLM themselves say while idle, beside the newest records of the trace."""
    newest: dict[str, Any] = {}
    for path in sorted(trace.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            newest[record["type"]] = record
    vllm = {
        metric.name: metric.value
        for metric in engine.llm.get_metrics()
        if hasattr(metric, "value") and any(word in metric.name for word in ("prefix", "preempt"))
    }
    try:
        torch = engine.llm.collective_rpc(memory_stats)
    except Exception as exc:  # noqa: BLE001 (an experiment: what is told is told)
        torch = repr(exc)
    (out / "truth.json").write_text(json.dumps({"trace": newest, "vllm": vllm, "torch": torch}))


def memory_stats(worker: Any) -> dict[str, int]:
    """In the worker: torch's own figures for the device that it uses."""
    import torch  # type: ignore[import-not-found,unused-ignore]

    stats = torch.cuda.memory_stats(worker.device)
    free, total = torch.cuda.mem_get_info(worker.device)
    names = (
        "allocated_bytes.all.current",
        "allocated_bytes.all.peak",
        "reserved_bytes.all.current",
        "inactive_split_bytes.all.current",
        "num_alloc_retries",
        "num_ooms",
    )
    return {name: stats[name] for name in names} | {"free": free, "total": total}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--pairs-64", type=int, default=60)
    parser.add_argument("--pairs-16", type=int, default=30)
    parser.add_argument("--small", action="store_true", help="a rehearsal on the CPU build")
    arguments = parser.parse_args()
    out: Path = arguments.out
    trace = out / "trace"
    trace.mkdir(parents=True)
    os.environ["VLLM_MEMORY_TRACE_DIR"] = str(trace)
    os.environ["VLLM_MEMORY_TRACE_REPLICA"] = "vllm-0"
    os.environ["VLLM_ALLOW_INSECURE_SERIALIZATION"] = "1"
    options: dict[str, Any] = {"max_model_len": 8192, "max_num_seqs": 256}
    if arguments.small:
        options = {
            "max_model_len": 512, "max_num_batched_tokens": 512, "block_size": 32,
            "num_gpu_blocks_override": 64, "enforce_eager": True, "max_num_seqs": 16,
        }  # fmt: skip
    engine = Engine(arguments.model, options, 2000 if arguments.small else 128_000)
    print(time.time(), "engine is up", flush=True)
    sessions(engine, out, trace, 0.06 if arguments.small else 1.0)
    print(time.time(), "sessions are recorded", flush=True)
    prompt = 64 if arguments.small else 512
    report = {}
    for concurrent, pairs in ((64, arguments.pairs_64), (16, arguments.pairs_16)):
        path = out / f"overhead_{concurrent}.json"
        report[concurrent] = overhead(engine, trace / "pause", concurrent, pairs, prompt, path)
        print(time.time(), concurrent, report[concurrent]["ratio"], flush=True)
    print(time.time(), "done", flush=True)


if __name__ == "__main__":
    main()
