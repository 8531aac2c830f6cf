"""How scattered: torch's allocator, the KV slots, the block tables and the free queue."""

from collections.abc import Sequence
from itertools import pairwise

from exporter.records.trace import FreeRuns, PageTable, Slots, TorchRecord

GROWTH_MINUTES = 5


def allocator_gap_bytes(torch: TorchRecord) -> int | None:
    """Reserved − allocated: bytes held from the driver and given to no tensor; None if unknown.

    A large gap is normal; it is a finding only with a symptom (retries, growth, margin below 0).
    """
    if torch.reserved_bytes is None or torch.allocated_bytes is None:
        return None
    return torch.reserved_bytes - torch.allocated_bytes


def allocator_gap_ratio(torch: TorchRecord) -> float | None:
    """Gap / reserved, 0 to 1; None when unknown or nothing is reserved."""
    gap_bytes = allocator_gap_bytes(torch)
    return (
        gap_bytes / torch.reserved_bytes if gap_bytes is not None and torch.reserved_bytes else None
    )


def gap_grows(minute_minima_bytes: Sequence[int]) -> bool | None:
    """Whether the allocator gap keeps growing: its minimum rose in each of the last 5 minutes.

    A single step, as the first real batch makes it, is no growth.

    Args: minute_minima_bytes: least gap in each of the last minutes, without a break, oldest first.
    Returns: None when there are fewer than 6 minutes, too few for 5 rises.
    """
    last = minute_minima_bytes[-GROWTH_MINUTES - 1 :]
    if len(last) <= GROWTH_MINUTES:
        return None
    return all(before < after for before, after in pairwise(last))


def oom_margin_bytes(torch: TorchRecord) -> int | None:
    """What the worker could still take, less what its peak would need on top of now.

    (gap − inactive_split) + device free − (allocated peak − allocated now); below 0 the next peak
    would run out of memory. None unless every part is known.
    """
    gap_bytes = allocator_gap_bytes(torch)
    if (
        gap_bytes is None
        or torch.allocated_bytes is None
        or torch.inactive_split_bytes is None
        or torch.device_free_bytes is None
        or torch.allocated_peak_bytes is None
    ):
        return None
    reusable_bytes = gap_bytes - torch.inactive_split_bytes
    missing_bytes = torch.allocated_peak_bytes - torch.allocated_bytes
    return reusable_bytes + torch.device_free_bytes - missing_bytes


def kv_fragmentation(slots: Slots) -> float | None:
    """Unused / allocated token slots of the requests' tables, 0 to 1; None without slots."""
    return (slots.allocated - slots.used) / slots.allocated if slots.allocated else None


def contiguity(page_table: PageTable) -> float | None:
    """Contiguous pages / pages, 0 to 1; None without pages."""
    return page_table.contiguous_pages / page_table.num_pages if page_table.num_pages else None


def extents(page_table: PageTable) -> int | None:
    """Runs of adjacent ascending pages, the transfers a DMA engine would need.

    pages − contiguous + tables (the first page of each table is contiguous and starts a run); None
    when the number of tables is unknown.
    """
    if page_table.tables is None:
        return None
    return page_table.num_pages - page_table.contiguous_pages + page_table.tables


def free_queue_contiguity(free_runs: FreeRuns) -> float | None:
    """Blocks at the free queue's head that follow their predecessor + 1 / blocks walked, 0 to 1.

    Predicts how contiguous the next request's table will be. None when nothing was walked.
    """
    if not free_runs.queue_walked or free_runs.queue_contiguous is None:
        return None
    return free_runs.queue_contiguous / free_runs.queue_walked
