"""The operators of one sidecar, by uid."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from uuid import uuid4

from idlestate.backends.sidecar.batches import ReachedMs
from idlestate.backends.sidecar.declaration import Declaration
from idlestate.backends.sidecar.errors import DoesNotFitError, UnknownOperatorError
from idlestate.backends.sidecar.operator import Operator
from idlestate.backends.sidecar.operator_record import OperatorRecord
from idlestate.backends.sidecar.store import Store
from idlestate.backends.sidecar.works import Works
from idlestate.retention.policy import Policy
from idlestate.timers.clock import Clock

MAX_OPERATORS = 1000
KINDS = "msxepwia"
"""What stands under an operator's uid: shards, segments, expired records and their entries,
prepared pieces, writers, the inbox, and writes set aside.
"""


class Host:
    """Opens what a store holds; use it until the store is closed.

    Args:
        store: where everything is.
        clock: whose time counts.
        reached_ms: looks into the commit log of a query's checkpoint.
        works: keep the runs of the operators.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        reached_ms: ReachedMs,
        works: Works,
    ) -> None:
        self.works = works
        self.store = store
        self.clock = clock
        self._reached_ms = reached_ms
        self._lock = threading.Lock()
        self._operators: dict[str, Operator] = {}
        for key, value in store.scan("o/"):
            self._operators[key.partition("/")[2]] = self._opened(OperatorRecord.decode(value))

    def __iter__(self) -> Iterator[Operator]:
        return iter(list(self._operators.values()))

    def __getitem__(self, uid: str) -> Operator:
        """An operator.

        Raises:
            UnknownOperatorError: there is none of that uid.
        """
        if uid not in self._operators:
            known = ", ".join(sorted(self._operators)) or "none"
            raise UnknownOperatorError(f"the sidecar has no operator {uid[:80]!r}; it has {known}")
        return self._operators[uid]

    def named_values(self) -> Iterator[tuple[str, int]]:
        """The keys of all values of shards that something names, each with its operator's number
        of shards.
        """
        for operator in self:
            for key in operator.state.named_values():
                yield key, len(operator.state.shards)

    def declare(self, declaration: Declaration, policy: Policy) -> Operator:
        """Make an operator, or find the one that is the same, which keeps its policy.

        Raises:
            DoesNotFitError: there is another of that uid, or the declaration makes no sense.
        """
        with self._lock:
            self._check(declaration, policy)
            known = self._operators.get(declaration.uid)
            if known is None:
                self._check_room(1)
                record = _new(declaration, policy)
                self.store.write({record.key: record.encode()})
                known = self._operators[declaration.uid] = self._opened(record)
            return known

    def declare_all(self, wanted: Sequence[tuple[Declaration, Policy]]) -> None:
        """Make operators, or find those that are the same, and give them their policies, between
        two batches: all or none. Errors as of `declare`.
        """
        with self._lock, ExitStack() as held:
            for declaration, policy in wanted:
                self._check(declaration, policy)
            new = [
                _new(declaration, policy)
                for declaration, policy in wanted
                if declaration.uid not in self._operators
            ]
            self._check_room(len(new))
            changes: dict[str, bytes | None] = {record.key: record.encode() for record in new}
            changed = []
            for declaration, policy in wanted:
                known = self._operators.get(declaration.uid)
                if known is not None and known.record.policy != policy:
                    held.enter_context(known.state.lock)
                    after = known.under(policy)
                    changes.update(known.state.values(*after))
                    changed.append((known.state, after))
            if changes:
                self.store.write(changes)
            for state, after in changed:
                state.believe(*after)
            for record in new:
                self._operators[record.declaration.uid] = self._opened(record)

    def _check(self, declaration: Declaration, policy: Policy) -> None:
        uid = declaration.uid
        declaration.spec()
        if policy.time.value != declaration.time:
            raise DoesNotFitError(
                f"operator {uid!r} goes by {declaration.time} time, its policy by "
                f"{policy.time.value} time"
            )
        known = self._operators.get(uid)
        if known is None:
            declaration.check_columns()
            return
        different = known.record.declaration.differences(declaration)
        if different:
            raise DoesNotFitError(
                f"operator {uid!r} of the sidecar is another: {'; '.join(different)}; put it back, "
                "or give it another uid"
            )

    def _check_room(self, more: int) -> None:
        if more and len(self._operators) + more > MAX_OPERATORS:
            raise DoesNotFitError(
                f"the sidecar has {len(self._operators)} operators, and {more} more are asked for; "
                f"{MAX_OPERATORS} operators are its most"
            )

    def holds(self, uid: str, made: str) -> bool:
        """Whether the operator of that uid is the very one that was made under this mark."""
        known = self._operators.get(uid)
        return known is not None and known.record.made == made

    def drop(self, uid: str) -> None:
        """Remove an operator with all it holds; nothing when there is none."""
        with self._lock:
            operator = self._operators.get(uid)
            if operator is None:
                return
            with operator.state.lock:
                gone = [key for kind in KINDS for key, _ in self.store.scan(f"{kind}/{uid}/")]
                operator.state.drop(gone)
                del self._operators[uid]

    def _opened(self, record: OperatorRecord) -> Operator:
        work = self.works.of(record.declaration)
        return Operator(self.store, record, self.clock, self._reached_ms, work)


def _new(declaration: Declaration, policy: Policy) -> OperatorRecord:
    return OperatorRecord(declaration, policy, made=uuid4().hex)
