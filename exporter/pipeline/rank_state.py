"""One worker between ticks: its newest allocator record and its counters."""

from collections.abc import Mapping

from exporter.analysis import fragmentation
from exporter.history.counter import ResetSafeCounter
from exporter.history.identities import FORGET_S
from exporter.history.latest import Latest
from exporter.records.ledger import Owner
from exporter.records.trace import TorchRecord
from exporter.records.view import RankView, SilentRankView


class RankState:
    """Remembers one worker (replica, engine, rank); `seen_s` is monotonic seconds."""

    def __init__(self, replica: str, engine: str, rank: int) -> None:
        self.replica = replica
        self.engine = engine
        self.rank = rank
        self.model_name = ""
        self._torch: Latest[TorchRecord] | None = None
        self._has_been_fresh = False
        self._alloc_retries = ResetSafeCounter()
        self._ooms = ResetSafeCounter()

    @property
    def newest(self) -> Latest[TorchRecord] | None:
        """The newest record, however old."""
        return self._torch

    def observe(self, record: TorchRecord, seen_s: float) -> None:
        """Take one allocator record."""
        self._torch = Latest(record, seen_s)
        self.model_name = record.model_name or self.model_name
        self._alloc_retries.update(record.alloc_retries, record.pid)
        self._ooms.update(record.ooms, record.pid)

    def refresh(self, now_s: float) -> None:
        """Note whether it tells of itself at `now_s`."""
        self._has_been_fresh = self._has_been_fresh or self.fresh(now_s) is not None

    def is_silent(self, now_s: float) -> bool:
        """Whether it told of itself and does no more; not so for old records found at start."""
        return self._has_been_fresh and self.fresh(now_s) is None

    def is_forgotten(self, now_s: float) -> bool:
        """Whether it has been silent for so long that its counters are no longer worth keeping."""
        return self._torch is None or now_s - self._torch.seen_s > FORGET_S

    def fresh(self, now_s: float) -> TorchRecord | None:
        """The newest record, or None when it is too old to be shown."""
        return self._torch.fresh(now_s) if self._torch else None

    def view(
        self,
        torch: TorchRecord,
        device: int | None,
        engine_model_name: str,
        parts_bytes: dict[Owner, int] | None,
    ) -> RankView:
        """This worker with its fresh record, on the GPU of that NVML index (None: not listed).

        Args: parts_bytes: of its process, None when they are not told apart.
        """
        return RankView(
            replica=self.replica,
            model_name=self.model_name or engine_model_name,
            engine=self.engine,
            rank=self.rank,
            device=device,
            torch=torch,
            fragmentation_bytes=fragmentation.allocator_gap_bytes(torch),
            fragmentation_ratio=fragmentation.allocator_gap_ratio(torch),
            oom_margin_bytes=fragmentation.oom_margin_bytes(torch),
            alloc_retries=self._alloc_retries.total,
            ooms=self._ooms.total,
            parts_bytes=parts_bytes,
        )

    def silent_view(
        self, index_by_uuid: Mapping[str, int], engine_model_name: str
    ) -> SilentRankView:
        """What is still true of this worker when its newest record is too old."""
        uuid = self._torch.record.uuid if self._torch else None
        return SilentRankView(
            replica=self.replica,
            model_name=self.model_name or engine_model_name,
            engine=self.engine,
            rank=self.rank,
            device=index_by_uuid.get(uuid or ""),
            uuid=uuid,
            alloc_retries=self._alloc_retries.total,
            ooms=self._ooms.total,
        )
