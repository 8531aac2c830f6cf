"""Facts about an engine, read once and attribute by attribute; what is not there stays unknown."""

import math
import multiprocessing
import os
import re
import sys
import time
from typing import Any

from msgspec import Struct

from exporter import __version__
from exporter.records.trace import SCHEMA_VERSION


def read(start: object, path: str) -> object:
    """The attribute at the dotted `path` below `start`; None where one is missing or fails."""
    value = start
    for name in path.split("."):
        try:
            value = getattr(value, name, None)
        except Exception:
            return None
        if value is None:
            return None
    return value


def as_text(value: object) -> str | None:
    """A string that fits a record (UTF-8, no control characters, ≤ 512); the first of a list."""
    if isinstance(value, (list, tuple)) and value:
        value = value[0]
    if not isinstance(value, str) or not value:
        return None
    text = value.encode("utf-8", "replace").decode("utf-8")
    return re.sub(r"[\x00-\x1f\x7f]", "?", text)[:512]


def as_count(value: object) -> int | None:
    """A whole number from 0 to 2**53, or None (a bool is no number)."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 2**53:
        return int(value)
    return None


def as_ratio(value: object) -> float | None:
    """A number from 0 to 1, or None."""
    if isinstance(value, (int, float)) and math.isfinite(value) and 0 <= value <= 1:
        return float(value)
    return None


class Identity(Struct, frozen=True, kw_only=True):
    """Who writes: the fields that each record of one file carries, and the file's name.

    `role`: "engine" (the scheduler) or "worker" (one rank's allocator); `engine`: data-parallel
    rank as text; `rank`: of the worker in its engine, None for the role "engine".
    """

    replica: str
    role: str
    engine: str
    model_name: str | None
    pid: int
    start_unix_ns: int
    rank: int | None = None

    @property
    def file_name(self) -> str:
        """`<replica>.<role>.dp<D>.r<R>.<pid>-<start_s>.jsonl`, unusual characters replaced."""
        replica = re.sub(r"[^A-Za-z0-9_.-]", "_", self.replica)[:100].lstrip(".") or "_"
        start_s = self.start_unix_ns // 1_000_000_000
        return f"{replica}.{self.role}.dp{self.engine}.r{self.rank or 0}.{self.pid}-{start_s}.jsonl"

    def header(self, interval_s: float) -> dict[str, Any]:
        """What every record needs, taken now."""
        return {
            "v": SCHEMA_VERSION,
            "ts_unix_ns": time.time_ns(),
            "pid": self.pid,
            "replica": self.replica,
            "engine": self.engine,
            "interval_s": interval_s,
            "model_name": self.model_name,
        }


def identity(vllm_config: object, replica: str, role: str, rank: int | None = None) -> Identity:
    """Who this process is. Source: `parallel_config.data_parallel_index` (before it existed,
    `data_parallel_rank`) and `model_config.served_model_name`, as on vLLM's own /metrics.
    """
    index = as_count(read(vllm_config, "parallel_config.data_parallel_index"))
    if index is None:
        index = as_count(read(vllm_config, "parallel_config.data_parallel_rank"))
    name = as_text(read(vllm_config, "model_config.served_model_name"))
    return Identity(
        replica=replica,
        role=role,
        engine=str(index or 0),
        model_name=name or as_text(read(vllm_config, "model_config.model")),
        pid=os.getpid(),
        start_unix_ns=time.time_ns(),
        rank=rank,
    )


def _data_parallel_size(vllm_config: object) -> int | None:
    """Data-parallel engines of the server; None where the configuration does not tell.

    vLLM ≥ 0.15 sets the size to 1 in each data-parallel engine of a dense model: there its index
    above 0, or the process's name (EngineCore_DP0), says that this is not the server's size.
    """
    size = as_count(read(vllm_config, "parallel_config.data_parallel_size"))
    is_one_of_several = bool(read(vllm_config, "parallel_config.data_parallel_index"))
    if size == 1 and (is_one_of_several or "_DP" in multiprocessing.current_process().name):
        return None
    return size


def engine_facts(vllm_config: object, num_gpu_blocks: object = None) -> dict[str, Any]:
    """The constant fields of an EngineRecord. `num_gpu_blocks`: the pool's own figure."""
    config = vllm_config
    vllm = sys.modules.get("vllm")
    caching = read(config, "cache_config.enable_prefix_caching")
    return {
        "vllm_version": as_text(read(vllm, "__version__")),
        "plugin_version": __version__,
        "block_size": as_count(read(config, "cache_config.block_size")),
        "num_gpu_blocks": as_count(num_gpu_blocks),
        "max_model_len": as_count(read(config, "model_config.max_model_len")),
        "max_num_seqs": as_count(read(config, "scheduler_config.max_num_seqs")),
        "gpu_memory_utilization": as_ratio(read(config, "cache_config.gpu_memory_utilization")),
        "cache_dtype": as_text(read(config, "cache_config.cache_dtype")),
        "enable_prefix_caching": caching if isinstance(caching, bool) else None,
        "tensor_parallel_size": as_count(read(config, "parallel_config.tensor_parallel_size")),
        "pipeline_parallel_size": as_count(read(config, "parallel_config.pipeline_parallel_size")),
        "data_parallel_size": _data_parallel_size(config),
        "kv_connector": as_text(read(config, "kv_transfer_config.kv_connector")),
        "speculative_tokens": as_count(read(config, "speculative_config.num_speculative_tokens")),
    }
