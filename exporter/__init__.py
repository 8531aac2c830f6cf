"""vllm-memory-exporter: why the GPU's memory is full, who owns it, and what to change."""

__version__ = "0.1.0"
