"""The metric table: every family that the exporter has, by subject. Names are an API."""

from exporter.views.metrics.engine import ENGINE, PLUGIN
from exporter.views.metrics.gpu import GPU, GPU_MEMORY_USE
from exporter.views.metrics.gpu_faults import GPU_FAULTS
from exporter.views.metrics.gpu_links import GPU_LINKS
from exporter.views.metrics.gpu_mig import GPU_MIG
from exporter.views.metrics.gpu_profile import GPU_PROFILE
from exporter.views.metrics.kv_cache import KV_CACHE, PAGE_TABLE
from exporter.views.metrics.ledger import LEDGER
from exporter.views.metrics.own import OWN
from exporter.views.metrics.torch_allocator import TORCH_ALLOCATOR

SUBJECTS = (
    GPU,
    GPU_MEMORY_USE,
    LEDGER,
    GPU_MIG,
    GPU_PROFILE,
    GPU_LINKS,
    GPU_FAULTS,
    ENGINE,
    PAGE_TABLE,
    KV_CACHE,
    TORCH_ALLOCATOR,
    PLUGIN,
    OWN,
)
FAMILIES = tuple(family for subject in SUBJECTS for family in subject.families)
