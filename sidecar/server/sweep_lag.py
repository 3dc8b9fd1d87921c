"""The deadline of the oldest overdue life at the moment of a scrape, even while a sweep hangs.

The record of a shard has a time before which no life ends. If that time has passed, the table is
asked, in a separate thread: a disk or a worker that hangs must not block a scrape. The answer of a
table stays valid until its shard gets another record.
"""

import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.retention.policy import FOREVER_MS
from idlestate.retention.rules import NEVER_MS
from idlestate.sidecar.core.operator import Operator
from idlestate.sidecar.core.operator_record import OperatorRecord
from idlestate.sidecar.core.operators import Host
from idlestate.sidecar.core.shard_executor import StepParameters
from idlestate.sidecar.protocol.errors import SidecarError

PATIENCE_S: Final = 0.5
"""How long a scrape waits for the tables."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """The first deadline of an open life in a shard; None if there is none up to `upto_ms`."""

    shard: ShardRecord
    upto_ms: int
    end_ms: int | None

    def holds(self, shard: ShardRecord, upto_ms: int) -> bool:
        """Whether the table would still give the same answer; a new policy comes with new
        records.
        """
        return self.shard is shard and (self.end_ms is not None or upto_ms <= self.upto_ms)


@dataclass(frozen=True, slots=True)
class _Due:
    """An operator, and its shards in which lives may have ended by now."""

    operator: Operator
    record: OperatorRecord
    upto_ms: int
    shards: dict[int, ShardRecord]
    later_ms: int
    """No life of the other shards ends before this."""


class Overdue:
    """Finds the oldest life of each operator that has ended and is not closed yet.

    Args:
        host: the operators.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._lock = threading.Lock()
        self._thread = threading.Thread()
        self._answers: dict[tuple[str, int], _Answer] = {}

    def next_ends_ms(self, now_ms: int) -> dict[str, int]:
        """The deadline of that life by uid; if there is none, a time in the future.

        If the tables do not answer, the records do; their time may be a little too early.

        Args:
            now_ms: the current time of operators in processing time.
        """
        every = [_due(operator, now_ms) for operator in self._host]
        self._ask([each for each in every if each.shards])
        return {
            each.operator.state.uid: min(self._ends(each), default=each.later_ms) for each in every
        }

    def _ask(self, due: list[_Due]) -> None:
        """Ask the tables whose answers are missing, and wait briefly."""
        with self._lock:
            kept = {(each.record.key, at) for each in due for at in each.shards}
            self._answers = {at: each for at, each in self._answers.items() if at in kept}
            unknown = [each for each in map(self._unknown, due) if each.shards]
            if unknown and not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._take_answers, args=[unknown], name="idlestate-overdue", daemon=True
                )
                self._thread.start()
            thread = self._thread
        if unknown:
            thread.join(PATIENCE_S)

    def _take_answers(self, due: list[_Due]) -> None:
        for each in due:
            record = each.record
            parameters = StepParameters(
                record.policy, each.upto_ms, record.version, record.committed, right=record.right
            )
            # Otherwise a worker is being restarted, or runs were merged in the meantime.
            with suppress(SidecarError):
                ends = each.operator.state.executor.first_ends(each.shards, parameters)
                with self._lock:
                    for at, shard in each.shards.items():
                        answer = _Answer(shard, each.upto_ms, ends.get(at))
                        self._answers[record.key, at] = answer

    def _answer(self, due: _Due, at: int) -> _Answer | None:
        """The answer of a shard's table, if it is still valid."""
        answer = self._answers.get((due.record.key, at))
        return answer if answer and answer.holds(due.shards[at], due.upto_ms) else None

    def _unknown(self, due: _Due) -> _Due:
        """The shards whose tables must be asked."""
        unknown = {at: shard for at, shard in due.shards.items() if not self._answer(due, at)}
        return replace(due, shards=unknown)

    def _ends(self, due: _Due) -> Iterator[int]:
        for at, shard in due.shards.items():
            answer = self._answer(due, at)
            end_ms = answer.end_ms if answer else shard.next_end_ms
            if end_ms is not None and end_ms != NEVER_MS:  # NEVER_MS: only the table knows
                yield end_ms


def _due(operator: Operator, now_ms: int) -> _Due:
    record, shards = operator.state.now
    upto_ms = operator.due_ms(now_ms)
    may_be = {at: shard for at, shard in enumerate(shards) if shard.next_end_ms <= upto_ms}
    later_ms = min(
        (each.next_end_ms for at, each in enumerate(shards) if at not in may_be), default=FOREVER_MS
    )
    return _Due(operator, record, upto_ms, may_be, later_ms)
