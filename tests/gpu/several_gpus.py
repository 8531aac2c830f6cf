"""One vLLM server over several GPUs, tensor-parallel or data-parallel, with the product beside it.

Usage: python -m tests.gpu.several_gpus OUT --mode tp|dp [--gpus N] [--model DIR] [--small]
Records with the product itself (500 ms throughout, 100 ms while KV blocks run out) what happens:
start, churn, more requests than the KV pool holds, a co-tenant on GPU 1, idling, stop. Then plays
the recordings and prints what must hold. OUT gets MODE_phases.json, MODE_engine.log,
MODE_sessions.jsonl, MODE_100ms.jsonl, MODE_summary.json and MODE_rest.tar.xz (expositions, trace,
logs), each as early as it is known.
"""

import argparse
import http.client
import re
import socket
import subprocess
import tarfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from tests.engine.driver import LLAMA_3_8B, SMALL, write_model
from tests.gpu.clients import Clients, chat, long
from tests.gpu.processes import Run, stop, wait_until
from tests.gpu.scraper import Scraper, labels
from tests.gpu.several_gpus_report import report

READY_TIMEOUT_S = 300.0
COTENANT_GIB = 6.0
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_MEMORY_TRACE_REPLICA": "vllm-0",
    "VLLM_ALLREDUCE_USE_SYMM_MEM": "0",
    # multicast over NVLink can put GPUs that others share out of service
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
}


class Plan(NamedTuple):
    """How large everything is; lengths in tokens, `cotenant_s` the time it holds memory."""

    shape: Mapping[str, int]
    module: str
    options: dict[str, str]
    environment: dict[str, str]
    max_model_len: int
    max_num_seqs: int
    prefixes: tuple[int, ...]
    chat_clients: int
    churn_s: float
    exhaustion_s: float
    cotenant_s: float
    idle_s: float


LARGE = Plan(
    shape=LLAMA_3_8B,
    module="vllm.entrypoints.cli.main",
    options={"--gpu-memory-utilization": "0.9", "--disable-custom-all-reduce": ""},
    environment={},
    max_model_len=8192,
    max_num_seqs=256,
    prefixes=(256, 512, 1024, 1536, 2048),
    chat_clients=32,
    churn_s=35,
    exhaustion_s=100,
    cotenant_s=20,
    idle_s=12,
)
REHEARSAL = Plan(
    shape=SMALL,
    module="vllm.entrypoints.openai.api_server",
    options={"--block-size": "32", "--num-gpu-blocks-override": "48", "--enforce-eager": ""},
    environment={
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "TORCHDYNAMO_DISABLE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "0|1",
    },
    max_model_len=512,
    max_num_seqs=16,
    prefixes=(64, 96),
    chat_clients=4,
    churn_s=5,
    exhaustion_s=20,
    cotenant_s=2,
    idle_s=4,
)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def start_engine(
    run: Run, plan: Plan, model: Path, gpus: int, blocks: int
) -> tuple[subprocess.Popen[bytes], str]:
    """The server and its address; it is not ready yet."""
    port = free_port()
    parallel = "--tensor-parallel-size" if run.mode == "tp" else "--data-parallel-size"
    options = {
        "--served-model-name": "m", "--load-format": "dummy", "--dtype": "bfloat16",
        "--host": "127.0.0.1", "--port": str(port), parallel: str(gpus),
        "--max-num-seqs": str(plan.max_num_seqs), "--max-model-len": str(plan.max_model_len),
        **plan.options,
    }  # fmt: skip
    if blocks:
        options["--num-gpu-blocks-override"] = str(blocks)
    words = [word for pair in options.items() for word in pair if word]
    is_cli = plan.module.endswith("cli.main")
    which = ["serve", str(model)] if is_cli else ["--model", str(model)]
    environment = {**ENVIRONMENT, **plan.environment, "VLLM_MEMORY_TRACE_DIR": str(run.trace)}
    engine = run.start("engine", ["-m", plan.module, *which, *words], **environment)
    return engine, f"127.0.0.1:{port}"


def is_healthy(address: str) -> bool:
    connection = http.client.HTTPConnection(address, timeout=2)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def start_daemon(run: Run) -> tuple[subprocess.Popen[bytes], str]:
    """The product's daemon at 500 ms, and its address."""
    command = ["-m", "exporter", "serve", "--web.listen-address", "127.0.0.1:0"]
    daemon = run.start("daemon", [*command, "--trace.path", str(run.trace)])
    log, pattern = run.work / "daemon.log", re.compile(r"serves at http://([\d.]+:\d+)")
    if not wait_until(lambda: pattern.search(log.read_text()), 30):
        raise TimeoutError(log.read_text())
    found = pattern.search(log.read_text())
    assert found is not None
    return daemon, found.group(1)


def pool_tokens(scraper: Scraper) -> int:
    """Of the smallest engine's KV pool, as the daemon tells it; 0: not told."""
    told = [labels(series) for series in scraper.of("vllm_engine_info")]
    sizes = [int(of["num_gpu_blocks"] or 0) * int(of["block_size"] or 0) for of in told]
    return min(sizes, default=0)


def is_exhausted(scraper: Scraper, engines: int) -> bool:
    """Whether every engine has preempted."""
    preempting = [count for count in scraper.of("vllm_engine_preemptions_total").values() if count]
    return len(preempting) >= engines


def sessions(run: Run, plan: Plan, address: str, scraper: Scraper, gpus: int) -> dict[str, Any]:
    """Load worth looking at; returns what is known of it besides."""
    engines = gpus if run.mode == "dp" else 1
    vocabulary = plan.shape["vocab_size"]
    run.phase("churn: short requests behind shared prefixes")
    scraper.keep("ready")
    own, out = plan.max_model_len // 9, (16, plan.max_model_len // 20)
    clients = Clients(address, chat(vocabulary, plan.prefixes, own, out))
    clients.start(plan.chat_clients * engines)
    time.sleep(plan.churn_s)
    scraper.keep("churn")
    clients.stop()
    run.say(f"{clients.finished} requests finished, {clients.failed} failed")
    if not wait_until(lambda: pool_tokens(scraper), 5):
        run.say("the size of the KV pool is not told")
        return {}
    share = pool_tokens(scraper) // plan.max_num_seqs
    prompt = min(int(0.93 * share), int(0.83 * plan.max_model_len))
    out = (min(share // 4, plan.max_model_len // 9), plan.max_model_len // 7)
    run.phase(f"exhaustion: prompts of {prompt} tokens, a request's share of the pool is {share}")
    quick = run.record("100ms", "100ms")
    clients = Clients(address, long(vocabulary, prompt, out))
    clients.start(plan.max_num_seqs * engines * 5 // 4)
    started_s = time.monotonic()
    if wait_until(lambda: is_exhausted(scraper, engines), plan.exhaustion_s):
        run.say(f"exhausted after {time.monotonic() - started_s:.0f} s")
    else:
        run.say("no preemption seen in every engine; going on")
    scraper.keep("exhausted")
    run.phase("co-tenant on GPU 1 is started")
    path = str(Path(__file__).with_name("cotenant.py"))
    holds = [str(COTENANT_GIB), "0", str(plan.cotenant_s), "1"]
    cotenant = run.start("cotenant", [path, *holds])
    log = run.work / "cotenant.log"
    wait_until(lambda: "holds" in log.read_text() or cotenant.poll() is not None, 30)
    run.phase("co-tenant holds its memory")
    time.sleep(plan.cotenant_s / 2)
    scraper.keep("cotenant")
    try:
        cotenant.wait(60)
    finally:
        stop(cotenant)
    time.sleep(2)
    scraper.keep("after_cotenant")
    clients.stop()
    run.say(f"{clients.finished} requests finished, {clients.failed} failed")
    run.phase("idle")
    time.sleep(plan.idle_s)
    scraper.keep("idle")
    stop(quick)
    return {"cotenant_pid": cotenant.pid, "pool_tokens": pool_tokens(scraper)}


def cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    return sum(psutil.Process(pid).cpu_times()[:2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--mode", choices=("tp", "dp"), required=True)
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--model", type=Path, help="made when it is not there")
    parser.add_argument("--blocks", type=int, help="KV blocks; 0: as many as fit, above 2 GPUs few")
    parser.add_argument("--small", action="store_true", help="a rehearsal on the CPU build")
    arguments = parser.parse_args()
    plan = REHEARSAL if arguments.small else LARGE
    arguments.out.mkdir(parents=True, exist_ok=True)
    run = Run(arguments.out, arguments.mode)
    model: Path = arguments.model or run.work / "model"
    if not (model / "config.json").exists():
        write_model(model, plan.shape)
    known: dict[str, Any] = {"mode": run.mode, "gpus": arguments.gpus}
    with ExitStack() as stack:
        run.phase("start")
        recorder = run.record("sessions", "500ms")
        stack.callback(stop, recorder)
        daemon, daemon_address = start_daemon(run)
        stack.callback(stop, daemon)
        scraper = Scraper(daemon_address, run.work)
        scraper.start()
        stack.callback(scraper.stop)
        began_s, cpu_s = time.monotonic(), cpu_seconds(daemon.pid)
        blocks = arguments.blocks
        if blocks is None:  # so many that 256 requests can fill them
            blocks = 110_000 if run.mode == "tp" and arguments.gpus > 2 else 0
        engine, address = start_engine(run, plan, model, arguments.gpus, blocks)
        stack.callback(stop, engine)
        wait_until(lambda: engine.poll() is not None or is_healthy(address), READY_TIMEOUT_S)
        if is_healthy(address):
            run.phase("ready")
            known |= sessions(run, plan, address, scraper, arguments.gpus)
        else:
            run.phase("the engine did not start")
            print(run.path("engine.log").read_text(errors="replace")[-4000:], flush=True)
        known["daemon_rss_mb"] = psutil.Process(daemon.pid).memory_info().rss / 1e6
        known["daemon_cpu_ratio"] = (cpu_seconds(daemon.pid) - cpu_s) / (time.monotonic() - began_s)
        run.phase("stop")
        stop(engine)
        run.phase("stopped")
        time.sleep(3)
        scraper.keep("end")
    run.say("recorded")
    known |= {
        name: getattr(scraper, name)
        for name in ("scrapes", "failures", "ledgers", "wrong_sums", "slowest_s")
    }
    recordings = {name: run.path(f"{name}.jsonl") for name in ("sessions", "100ms")}
    try:
        report(known, recordings, scraper.latest, run.path("summary.json"))
    finally:
        with tarfile.open(run.path("rest.tar.xz"), "w:xz") as archive:
            for path in sorted(run.work.iterdir()):
                if path != model:
                    archive.add(path, path.name)
    run.say("done")


if __name__ == "__main__":
    main()
