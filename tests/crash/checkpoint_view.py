"""What an onlooker sees of a query: the batches its checkpoint has planned and committed."""

import json
from pathlib import Path
from typing import NamedTuple

TYPICAL_S = 1.0


class Planned(NamedTuple):
    """A batch as the offset log has it."""

    time_ms: int
    """Its journaled time."""
    last_file: int
    """Number of the last input file that it or a batch before it takes in."""


class CheckpointView:
    """The logs of a checkpoint, read while its query runs or lies dead."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def planned(self) -> int:
        """The newest batch in the offset log, -1 before the first."""
        return max(self._numbers("offsets"), default=-1)

    @property
    def committed(self) -> int:
        """The newest batch in the commit log, -1 before the first."""
        return max(self._numbers("commits"), default=-1)

    @property
    def in_flight(self) -> bool:
        """Whether a batch is planned and not committed."""
        return self.planned > self.committed

    def has_committed(self, batch_id: int) -> bool:
        return (self.root / "commits" / str(batch_id)).exists()

    def has_planned(self, batch_id: int) -> bool:
        return (self.root / "offsets" / str(batch_id)).exists()

    def run_files(self, uid: str, batch_id: int) -> set[str]:
        """Files of state that a batch has written."""
        return {
            path for path in self.all_run_files(uid) if Path(path).name.startswith(f"{batch_id}-")
        }

    def all_run_files(self, uid: str) -> set[str]:
        """Every file of state that is there."""
        folder = self.root / "idlestate" / uid / "runs"
        return {str(path) for path in folder.glob("*/*.arrow")}

    def typical_s(self, killed: set[int]) -> float:
        """How long a quick batch takes here, from planned to committed, no kill between them."""
        lengths = []
        for number in set(self._numbers("commits")) - killed:
            try:
                planned = (self.root / "offsets" / str(number)).stat().st_mtime
                lengths.append((self.root / "commits" / str(number)).stat().st_mtime - planned)
            except FileNotFoundError:
                continue  # Spark has removed the older logs
        return min(lengths, default=TYPICAL_S)

    def plans(self) -> dict[int, Planned]:
        """Every batch that is still in the offset log."""
        found = {}
        for number in self._numbers("offsets"):
            try:
                text = (self.root / "offsets" / str(number)).read_text()
            except FileNotFoundError:
                continue  # Spark has just removed it
            _, header, *sources = text.splitlines()
            time_ms = json.loads(header)["batchTimestampMs"]
            # A sidecar's expired records are a source too.
            offsets = [json.loads(source) for source in sources if source != "-"]
            last_file = max((each.get("logOffset", -1) for each in offsets), default=-1)
            found[number] = Planned(time_ms, last_file)
        return found

    def _numbers(self, log: str) -> list[int]:
        try:
            return [int(path.name) for path in (self.root / log).iterdir() if path.name.isdigit()]
        except FileNotFoundError:
            return []
