"""Pure functions from records to figures: no I/O, clock, thread or Prometheus code."""
