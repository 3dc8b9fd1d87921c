"""The growth log: the size of the state after each batch, in a file that outlives the process.

The file is JSON lines. The first line is `{"idlestate_growth": 1}`, the version; each other line
is one `GrowthPoint`. Points are appended in the order of their batches. A batch at or below the
last one is ignored, so that replaying a batch after a crash adds nothing. A last line that a crash
cut off is dropped when the next point is added.

The size of the file is bounded: beyond `MAX_POINTS`, every second point is left out (but never the
highest and the last one) and the file is rewritten, so that older points are further apart.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from idlestate.errors import RefusedError
from idlestate.metrics.operator_statistics import OperatorStatistics

VERSION = 1
MAX_POINTS = 10_000

_HEADER = json.dumps({"idlestate_growth": VERSION}).encode() + b"\n"


class GrowthLogError(RefusedError, ValueError):
    """A growth log cannot be read. Remove the file: only the past of the chart is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthPoint:
    """The size of an operator's state after a batch; totals count from the query's first batch.

    Attributes:
        batch_id: the batch.
        time_ms: the progress of the batch, ms since the epoch: the highest event time so far, or in
            processing time the time of the batch.
        live_keys: keys with an open life.
        keys_seen: distinct keys ever seen: the live keys without retention.
        state_bytes: size of the state; 0 in a point that was added later, after a crash.
        remembered_keys: expired keys that are remembered.
        remembered_bytes: size of the remembered keys.
        input_rows: rows read.
        keys_created: lives started.
        keys_expired: lives ended.
        returning_keys: lives started by remembered keys.
    """

    batch_id: int
    time_ms: int
    live_keys: int = 0
    keys_seen: int = 0
    state_bytes: int = 0
    remembered_keys: int = 0
    remembered_bytes: int = 0
    input_rows: int = 0
    keys_created: int = 0
    keys_expired: int = 0
    returning_keys: int = 0

    @classmethod
    def of(cls, figures: OperatorStatistics, time_ms: int) -> "GrowthPoint":
        """The point of a batch's figures, at `time_ms`."""
        return cls(
            batch_id=figures.batch_id,
            time_ms=time_ms,
            live_keys=figures.live_keys,
            keys_seen=figures.keys_seen,
            state_bytes=figures.state_bytes,
            remembered_keys=figures.remembered_keys,
            remembered_bytes=figures.remembered_bytes,
            input_rows=figures.input_rows,
            keys_created=figures.keys_created,
            keys_expired=figures.expired_total,
            returning_keys=figures.returning_keys,
        )


_FIELDS = tuple(field.name for field in fields(GrowthPoint))


class GrowthLog:
    """The growth log in one file, read when opened; the first point creates the file.

    It belongs to one operator of one query: keep it next to the query's checkpoint, and delete it
    with the checkpoint. One process writes; others may read at the same time.

    Args:
        path: the file.
        max_points: the most points to keep.
        afresh: whether to start without the points of the file, which is then replaced.

    Raises:
        GrowthLogError: the file is not a growth log, of a newer version, or damaged before its
            end.
    """

    def __init__(self, path: Path, *, max_points: int = MAX_POINTS, afresh: bool = False) -> None:
        if max_points < 4:
            raise ValueError(f"max_points must be at least 4, not {max_points}")
        self.path = path
        self._max_points = max_points
        self._points, self._whole_bytes = ([], 0) if afresh else _read(path)

    def append(self, point: GrowthPoint) -> bool:
        """Add the point of a batch, unless the log has this batch or a later one.

        When the call returns, `kill -9` does not lose the point. After an OSError, the log is
        unchanged.

        Returns:
            Whether it was added.
        """
        if self._points and point.batch_id <= self._points[-1].batch_id:
            return False
        if len(self._points) >= self._max_points:
            self._rewrite([*_thinned(self._points), point])
            return True
        line = _line(point)
        if not self.path.exists():
            self._rewrite([*self._points, point])
            return True
        if self._whole_bytes == 0:
            line = _HEADER + line
        with self.path.open("r+b", buffering=0) as file:
            file.truncate(self._whole_bytes)  # drops a line that a crash or a full disk cut off
            file.seek(self._whole_bytes)
            if file.write(line) != len(line):
                raise OSError(f"{self.path}: the disk is full; a growth point was not written")
        self._whole_bytes += len(line)
        self._points.append(point)
        return True

    def forget_after(self, batch_id: int) -> None:
        """Drop the points of later batches, which were rolled back."""
        kept = [point for point in self._points if point.batch_id <= batch_id]
        if len(kept) < len(self._points):
            self._rewrite(kept)

    def points(self) -> Sequence[GrowthPoint]:
        """All points, by batch."""
        return tuple(self._points)

    def last(self) -> GrowthPoint | None:
        """The newest point; None if there is none."""
        return self._points[-1] if self._points else None

    def peak(self) -> GrowthPoint | None:
        """The point with the most live keys, the first of several; None if there is none."""
        return _peak(self._points) if self._points else None

    def bytes_per_key(self) -> float:
        """Bytes of state per live key at the peak of live keys; 0 if not known.

        At other points, a few keys may share files that were written for many.
        """
        sized = [point for point in self._points if point.live_keys and point.state_bytes]
        if not sized:
            return 0.0
        peak = _peak(sized)
        return peak.state_bytes / peak.live_keys

    def _rewrite(self, points: list[GrowthPoint]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = _HEADER + b"".join(map(_line, points))
        draft = self.path.with_name(f".{self.path.name}.part")
        try:
            draft.write_bytes(text)
            draft.replace(self.path)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
        self._points, self._whole_bytes = points, len(text)


def _line(point: GrowthPoint) -> bytes:
    return json.dumps(asdict(point), separators=(",", ":")).encode() + b"\n"


def _peak(points: Sequence[GrowthPoint]) -> GrowthPoint:
    return max(points, key=lambda point: point.live_keys)


def _thinned(points: Sequence[GrowthPoint]) -> list[GrowthPoint]:
    """Every second point, the peak and the last."""
    kept = {point.batch_id: point for point in points[::2]}
    for point in (_peak(points), points[-1]):
        kept[point.batch_id] = point
    return [kept[batch_id] for batch_id in sorted(kept)]


def _read(path: Path) -> tuple[list[GrowthPoint], int]:
    """The points of a file, and how many of its bytes they take."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return [], 0
    lines = content.split(b"\n")[:-1]  # what follows the last newline was cut off
    if not lines:
        if not _HEADER.startswith(content):
            raise GrowthLogError(f"{path} is not a growth log of idlestate; choose another file")
        return [], 0
    _check_header(path, lines[0])
    points: list[GrowthPoint] = []
    whole_bytes = len(lines[0]) + 1
    for number, line in enumerate(lines[1:], start=2):
        try:
            point = _parse(line)
        except (ValueError, KeyError, TypeError) as error:
            if number == len(lines):
                break
            raise GrowthLogError(
                f"{path}, line {number}: not a growth point ({error}); remove the line or the"
                " file: only a part of the chart is lost"
            ) from error
        points.append(point)
        whole_bytes += len(line) + 1
    return points, whole_bytes


def _check_header(path: Path, line: bytes) -> None:
    try:
        version = json.loads(line)["idlestate_growth"]
    except (ValueError, KeyError, TypeError) as error:
        raise GrowthLogError(
            f"{path} is not a growth log of idlestate; choose another file"
        ) from error
    if version != VERSION:
        raise GrowthLogError(
            f"{path}: growth log version {version} is not supported (supported: {VERSION}); use "
            "the version of idlestate that wrote it, or remove the file"
        )


def _parse(line: bytes) -> GrowthPoint:
    values = json.loads(line)
    point = {name: values[name] for name in _FIELDS if name in values}
    if any(type(value) is not int for value in point.values()):
        raise ValueError("a value is not a whole number")
    return GrowthPoint(**point)
