"""Board "Fleet": is anything wrong, for whom, and on which node."""

from dashboards.board import Board, alerts, mark
from dashboards.fleet.memory import MEMORY
from dashboards.fleet.now import NOW
from dashboards.fleet.pressure import PRESSURE
from dashboards.fleet.tables import MODELS, NODES
from dashboards.fleet.work import WORK
from dashboards.objectives import OBJECTIVES
from dashboards.panels import row
from dashboards.queries import FLEET, recorded

FLEET_BOARD = Board(
    uid="vllm-memory-fleet",
    title="vLLM memory / Fleet",
    description="Is anything wrong, for whom, and on which node. Reads recording rules only, so it "
    "is as quick with 1,000 nodes as with one.",
    panels=[
        row("Now"),
        *NOW,
        row("Objectives: vLLM's latency histograms"),
        *OBJECTIVES,
        row("Pressure"),
        *PRESSURE,
        row("By model"),
        *MODELS,
        row("By node"),
        *NODES,
        row("Where the fleet's memory is"),
        *MEMORY,
        row("Work"),
        *WORK,
    ],
    refresh="30s",
    marks=[
        alerts(FLEET),
        mark(
            "Conflicts of the last 10 minutes",
            "red",
            f"{recorded('job:gpu_memory_conflicts:increase10m', FLEET)} > 0",
            "Conflict over memory: {{kind}}",
            "Job {{job}}",
        ),
    ],
    vllm_choices=("job",),
)
