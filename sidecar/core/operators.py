"""The operators of one sidecar, by uid."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from uuid import uuid4

from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.retention.policy import Policy
from idlestate.sidecar.core.micro_batches import ReachedMs
from idlestate.sidecar.core.operator import Operator
from idlestate.sidecar.core.operator_record import OperatorRecord, Owner
from idlestate.sidecar.core.ownership import redefined, refuse_other
from idlestate.sidecar.core.shard_placement import ShardPlacement
from idlestate.sidecar.protocol.declaration import Declaration
from idlestate.sidecar.protocol.errors import DoesNotFitError, UnknownOperatorError
from idlestate.sidecar.stores.store import Store
from idlestate.timers.clock import Clock

MAX_OPERATORS = 1000
KINDS = "msxejpwia"
"""The prefixes of an operator's values: shards, segments, expired records, their entries and joined
entries, prepared pieces, writers, the inbox, and quarantined writes.
"""


class Host:
    """Opens the operators of a store; use it until the store is closed.

    Args:
        store: the store of everything.
        clock: the sidecar's clock.
        reached_ms: reads the commit log of a query's checkpoint.
        placement: the placement of the operators' runs.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        reached_ms: ReachedMs,
        placement: ShardPlacement,
    ) -> None:
        self.placement = placement
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
            UnknownOperatorError: there is no operator with this uid.
        """
        if uid not in self._operators:
            known = ", ".join(sorted(self._operators)) or "none"
            raise UnknownOperatorError(f"the sidecar has no operator {uid[:80]!r}; it has {known}")
        return self._operators[uid]

    def named_values(self) -> Iterator[tuple[str, int]]:
        """The keys of all values of shards in use, each with its operator's number of shards."""
        for operator in self:
            for key in operator.state.named_values():
                yield key, len(operator.state.shards)

    def declare(
        self,
        declaration: Declaration,
        policy: Policy,
        query: Owner | None = None,
        made: str | None = None,
        right: Policy | None = None,
    ) -> Operator:
        """Create an operator, or find the existing one, which keeps its policy. A changed
        definition is taken over.

        Args:
            declaration: the operator.
            policy: the policy of a new operator.
            right: for a new join, the policy of right rows.
            query: the run of a query that declares it; only its owner query may change it.
            made: the mark of the operator in the query's checkpoint.

        Raises:
            DoesNotFitError: an operator with this uid exists and its state cannot be taken over, or
                the declaration is not valid.
        """
        with self._lock:
            judged = self._judged(declaration, policy, query)
            known = self._operators.get(declaration.uid)
            if query is not None and known is not None and known.record.made != made:
                refuse_other(known.record, judged)
            self._apply([(judged, policy)], query, keeps_policy=True, right=right)
            return self._operators[declaration.uid]

    def declare_all(self, wanted: Sequence[tuple[Declaration, Policy]]) -> None:
        """Create operators, or find the existing ones, and set their policies and definitions
        between two batches: all or none. Raises the errors of `declare`.

        Raises:
            DoesNotFitError: also if a new policy would remove more keys at once than its
                `max_shrink` allows.
        """
        with self._lock:
            for declaration, policy in wanted:
                self._refuse_shrink(declaration.uid, policy)
            judged = [(self._judged(each, policy, None), policy) for each, policy in wanted]
            self._apply(judged, None, keeps_policy=False)

    def _refuse_shrink(self, uid: str, policy: Policy) -> None:
        known = self._operators.get(uid)
        if known is None or known.record.policy == policy or policy.max_shrink == 1:
            return
        refusal = known.plan(policy, self.clock.now_ms()).refusal
        if refusal is not None:
            raise DoesNotFitError(refusal)

    def _apply(
        self,
        wanted: Sequence[tuple[Declaration, Policy]],
        query: Owner | None,
        *,
        keeps_policy: bool,
        right: Policy | None = None,
    ) -> None:
        """Write new and changed operators atomically, then apply the changes in memory."""
        new = [
            _new(declaration, policy, right)
            for declaration, policy in wanted
            if declaration.uid not in self._operators
        ]
        self._check_room(len(new))
        changes: dict[str, bytes | None] = {record.key: record.encode() for record in new}
        changed = []
        with ExitStack() as held:
            for declaration, policy in wanted:
                known = self._operators.get(declaration.uid)
                if known is None:
                    continue
                held.enter_context(known.state.lock)
                shards: dict[int, ShardRecord] = {}
                record = known.state.record
                if not keeps_policy and record.policy != policy:
                    record, shards = known.under(policy)
                if declaration != record.declaration:
                    record = redefined(record, declaration, query)
                if record is not known.state.record:
                    changes.update(known.state.values(record, shards))
                    changed.append((known.state, record, shards))
            if changes:
                self.store.write(changes)
            for state, record, shards in changed:
                is_redefined = record.declaration != state.record.declaration
                state.believe(record, shards)
                if is_redefined:
                    state.use(self.placement.of(record.declaration))
        for record in new:
            self._operators[record.declaration.uid] = self._opened(record)

    def _judged(self, declaration: Declaration, policy: Policy, query: Owner | None) -> Declaration:
        """The declaration to store, with the ids of the existing aggregates.

        Raises:
            DoesNotFitError: it is not valid, or the state cannot be taken over.
        """
        uid = declaration.uid
        declaration.spec()
        declaration.check_time(policy)
        known = self._operators.get(uid)
        if known is None:
            declaration.check_columns()
            return replace(declaration, definition=declaration.definition.kept)
        before = known.record.declaration if query is None else known.record.written
        after = declaration.taking_over(before)
        if after != known.record.declaration:
            declaration.check_columns()
        return after

    def _check_room(self, more: int) -> None:
        if more and len(self._operators) + more > MAX_OPERATORS:
            raise DoesNotFitError(
                f"the sidecar has {len(self._operators)} operators, and {more} more were declared; "
                f"the maximum is {MAX_OPERATORS}"
            )

    def holds(self, uid: str, made: str) -> bool:
        """Whether the operator with this uid is the one that was created with this mark."""
        known = self._operators.get(uid)
        return known is not None and known.record.made == made

    def drop(self, uid: str) -> None:
        """Remove an operator and all its state; does nothing if there is none."""
        with self._lock:
            operator = self._operators.get(uid)
            if operator is None:
                return
            with operator.state.lock:
                gone = [key for kind in KINDS for key, _ in self.store.scan(f"{kind}/{uid}/")]
                operator.state.drop(gone)
                del self._operators[uid]

    def _opened(self, record: OperatorRecord) -> Operator:
        executor = self.placement.of(record.declaration)
        return Operator(self.store, record, self.clock, self._reached_ms, executor)


def _new(declaration: Declaration, policy: Policy, right: Policy | None) -> OperatorRecord:
    return OperatorRecord(declaration, policy, made=uuid4().hex, right=right)
