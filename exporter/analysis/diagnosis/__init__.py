"""Names the cause: a history of Views in, findings with evidence and advice out."""

from exporter.analysis.diagnosis.diagnosis import Diagnosis, diagnose
from exporter.analysis.diagnosis.history import History, advanced

__all__ = ["Diagnosis", "History", "advanced", "diagnose"]
