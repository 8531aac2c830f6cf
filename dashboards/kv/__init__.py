"""Rows of the board "KV cache and page tables"."""
