"""What every history of a query with kills in it shares: its runs, and the plans they went by."""

from collections.abc import Sequence
from pathlib import Path

from tests.crash.checkpoint_view import CheckpointView, Planned
from tests.crash.processes import Run


class QueryRuns:
    """The runs of one query on one checkpoint, one after the other."""

    place: Path
    config: Path
    plans: dict[int, Planned]
    _options: Sequence[str] = ()
    """More words of the command line of each run."""
    _job: Path | None = None
    """The script of each run in place of `idlestate run`."""
    _run: Run | None
    _starts: int

    def _prepare(self, config: Path) -> None:
        self.config = config
        self.view = CheckpointView(self.checkpoint)
        self._run = None
        self._starts = 0

    @property
    def out(self) -> Path:
        return self.place / "out"

    @property
    def checkpoint(self) -> Path:
        return self.out / "checkpoint"

    def _start(self, submit: Sequence[str] | None = None) -> Run:
        self._starts += 1
        log = self.place / f"run-{self._starts}.log"
        self._run = Run(self.config, log, *self._options, job=self._job, submit=submit)
        return self._run

    def _note_plans(self) -> None:
        """Keep what Spark removes from the log in time; what was planned must never change."""
        for batch_id, planned in self.view.plans().items():
            known = self.plans.setdefault(batch_id, planned)
            assert known == planned, f"batch {batch_id} was planned anew"
