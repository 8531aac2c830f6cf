"""Board "GPU memory pressure": which GPU is full, of what, and since when."""

from dashboards.board import Board
from dashboards.gpu.exporter import ITSELF
from dashboards.gpu.hardware import HARDWARE
from dashboards.gpu.health import HEALTH
from dashboards.gpu.ledger import LEDGER
from dashboards.gpu.now import NOW
from dashboards.gpu.pressure import PRESSURE, SAMPLES
from dashboards.gpu.room import ROOM
from dashboards.gpu.tenants import TENANTS
from dashboards.panels import row

GPU_BOARD = Board(
    uid="vllm-memory-gpu",
    title="vLLM memory / GPU memory pressure",
    description="Which GPU is full, of what, and since when. Choose an instance above; "
    "the fleet board leads here.",
    panels=[
        row("Now"),
        *NOW,
        row("Pressure of every GPU of $instance", repeat="instance"),
        *PRESSURE,
        row("Every sample, also those between two scrapes"),
        *SAMPLES,
        row("Where the memory went"),
        *LEDGER,
        row("Room to the next failure"),
        *ROOM,
        row("Processes and conflicts"),
        *TENANTS,
        row("Bandwidth, power, throttling"),
        *HARDWARE,
        row("Health of the hardware"),
        *HEALTH,
        row("The exporter itself"),
        *ITSELF,
    ],
)
