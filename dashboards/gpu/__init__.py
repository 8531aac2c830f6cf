"""Rows of the board "GPU memory pressure"."""
