"""`python -m exporter` and the script `vllm-memory-exporter`."""

from exporter.cli import main

if __name__ == "__main__":
    main()
