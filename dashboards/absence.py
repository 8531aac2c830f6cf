"""What a panel says instead of standing empty: which optional source is missing, and the remedy."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Absence:
    """A few words for a small panel, and what to do about it."""

    words: str
    remedy: str = ""

    @property
    def sentence(self) -> str:
        """Both, for a panel that has room."""
        return f"{self.words}: {self.remedy}" if self.remedy else f"{self.words}."


NO_GPU = Absence(
    "No GPU seen", "the exporter finds no NVIDIA driver or is not scraped; its log says which."
)
NO_LEDGER = Absence("No ledger", "the exporter sees no GPU memory here; its log says why.")
NO_ENGINE = Absence(
    "No engine seen", "give the exporter --trace.path (plugin in vLLM) or --engine.url."
)
NO_TRACE = Absence(
    "No trace", "set VLLM_MEMORY_TRACE_DIR for vLLM and --trace.path for the exporter."
)
NO_EFFECTIVE = Absence(
    "No trace", "effective pressure needs the plugin in an engine on these GPUs (docs/plugin.md)."
)
NO_TORCH = Absence(
    "No allocator figures", "they come from the plugin in vLLM's workers (docs/plugin.md)."
)
NO_PROCESS = Absence(
    "No process", "none holds these GPUs, or the driver does not say (container, MIG)."
)
NO_TABLES = Absence("No page tables", "they come from the plugin, and only while requests run.")
NO_LOOKUPS = Absence(
    "No look-ups", "none in the last minute, or prefix caching is off, or no source tells them."
)
NOT_FILLING = Absence("Not filling")
NO_THROTTLE = Absence("Not told", "this driver or GPU gives no clock event reasons.")
NOT_TOLD_BY_GPU = Absence("Not told", "this driver or GPU does not have the figure.")
NO_RANKS = Absence("One worker", "engines with several workers (tensor parallel) are compared.")
NO_XID = Absence("No error", "the driver has reported none since the exporter started.")
NO_VLLM = Absence(
    "No figures of vLLM",
    "its /metrics is not scraped; add a job for its port (docs/dashboards.md).",
)
NO_RULES = Absence(
    "No recorded series", "load deploy/prometheus/rules into Prometheus (docs/dashboards.md)."
)
NO_OBJECTIVE = Absence(
    "No latencies", "scrape vLLM's /metrics too, and load deploy/prometheus/rules/slo.yml."
)
NO_EXPORTER = Absence("No exporter", "none is scraped under this job and instance.")
NO_SOURCE = Absence("No source", "the exporter plays a recording, or is not scraped.")
NO_PLUGIN = Absence("No plugin", "install it beside vLLM and set VLLM_MEMORY_TRACE_DIR.")
NO_GPM = Absence(
    "Not measured", "start the exporter with --nvml.gpm (it shares counters with DCGM's profiling)."
)
NO_MIG = Absence("No MIG device", "these GPUs are not divided.")
