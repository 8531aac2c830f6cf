"""The only mutable state: readings go in, one immutable View comes out at each tick."""

from exporter.pipeline.pipeline import Pipeline

__all__ = ["Pipeline"]
