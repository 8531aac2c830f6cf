"""The stand-in engine of allocator_problem, as a process of its own."""

import sys
from pathlib import Path

from tests.gpu.allocator_problem import engine

if __name__ == "__main__":
    engine(Path(sys.argv[1]))
