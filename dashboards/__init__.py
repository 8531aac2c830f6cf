"""Generator of the Grafana boards. Standard library only; imports nothing of the exporter."""
