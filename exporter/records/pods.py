"""Which container has which GPU, as the node's kubelet says; knows no gRPC and no engines."""

from msgspec import Struct


class GpuHolder(Struct, frozen=True):
    """One container that was given a GPU or a part of it.

    `uuid`: of the GPU as NVML has it (``GPU-…``), or of a MIG slice (``MIG-…``).
    """

    uuid: str
    namespace: str
    pod: str
    container: str


class PodReading(Struct, frozen=True, kw_only=True, tag="pods", tag_field="type"):
    """All holders of GPUs on this node at one moment, each once, in the kubelet's order."""

    ts_unix_ns: int
    interval_s: float
    holders: tuple[GpuHolder, ...]
