"""Render a View: metrics, tables, frames. Nothing here computes a figure."""
