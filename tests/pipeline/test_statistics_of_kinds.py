"""The figures of every kind of operator, as metrics and pages tell them, against its rows."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlestate import Policy, tumbling
from idlestate.backends.shards.as_of import as_of
from idlestate.backends.shards.batch_times import BatchTimes
from idlestate.backends.shards.bounded_over import over_kind
from idlestate.backends.shards.deduplication import Keep, deduplication
from idlestate.backends.shards.frames import Frame, FrameUnit
from idlestate.backends.shards.key_details import KeyState, details_of, one_key
from idlestate.backends.shards.next_record import open_table
from idlestate.backends.shards.operator_kind import OperatorKind
from idlestate.backends.shards.operator_steps import JoinStep
from idlestate.backends.shards.packet_codec import encode_packet
from idlestate.backends.shards.planned_removals import horizons_of
from idlestate.backends.shards.shard_batch import advance
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.backends.shards.shard_statistics import ShardStatistics
from idlestate.backends.shards.state_rows import rows_in_state
from idlestate.metrics.families import DUE_WITHIN_MS
from idlestate.metrics.key_age_samples import idle_ages, keys_due
from idlestate.metrics.shard_totals import operator_statistics
from idlestate.pipeline.retain_harness import OperatorHarness
from idlestate.retention.age_buckets import AGE_BUCKETS_MS
from idlestate.retention.policy import FOREVER_MS
from idlestate.retention.policy_version import PolicyVersion
from idlestate.retention.windows import session
from idlestate.testing import FakeClock, FunctionHarness, RetainHarness
from tests.backends.stream_join_rows import Row, spec_of, steps_of
from tests.functions.scripted import OPERATIONS, OUTPUT, Scripted
from tests.functions.test_co_functions import TwoSided, pair
from tests.functions.test_co_functions import harness as co_function
from tests.pipeline.two_input_runs import _KeptRuns

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BASE_MS, MINUTE_MS, H_MS = 86_400_000 * 10, 60_000, 3_600_000
SCHEMA = {
    "key": pa.string(),
    "t": pa.timestamp("us", "UTC"),
    "op": pa.string(),
    "n": pa.int32(),
    "reads": pa.bool_(),
}
TYPES = {"op": pa.string(), "n": pa.int32()}
POLICIES = [
    Policy(),
    Policy(idle_min_ms=20 * MINUTE_MS, idle_max_ms=45 * MINUTE_MS),
    Policy(ttl_ms=40 * MINUTE_MS),
    Policy(max_lifetime_ms=30 * H_MS),
]
Record = tuple[bool, str, int, str, int]
"""Whether it is a read or of the right input, key, minute, operation, number."""


class Kind(Protocol):
    """An operator of some kind, batch by batch, with a minute between two batches."""

    policy: Policy

    @property
    def record(self) -> ShardRecord: ...
    def batch(self, records: list[Record]) -> None: ...

    def rows(self) -> list[tuple[int, int]]:
        """When each row of `read_state` is due, and when it was used last (ms)."""


class Harnessed:
    def __init__(
        self, policy: Policy | None, made: Callable[..., OperatorHarness], **arguments: Any
    ):
        self.clock = FakeClock(BASE_MS + 1000 * H_MS)
        time = {"event_time": "t", "clock": self.clock, "max_ahead": "30d"}
        self.harness = made(SCHEMA, key="key", policy=policy, **time, **arguments)
        self.policy = self.harness._spec.policy

    @property
    def record(self) -> ShardRecord:
        return self.harness._record

    def batch(self, records: list[Record]) -> None:
        self.clock.advance(MINUTE_MS)
        self.harness.batch([
            {"key": key, "t": EPOCH + timedelta(milliseconds=BASE_MS, minutes=at), "op": op,
             "n": n, "reads": reads}
            for reads, key, at, op, n in records
        ])  # fmt: skip

    def rows(self) -> list[tuple[int, int]]:
        return [
            (min([_ms(row["deadline"]), *(each["at_ms"] for each in row.get("timers") or [])]),
             _ms(row["last_access"]))
            for row in self.harness.lives()
        ]  # fmt: skip


class CoFunction(Harnessed):
    """A function on two inputs; what a record reads in other kinds, is of the right one here."""

    def __init__(self, policy: Policy) -> None:
        self.clock = FakeClock(BASE_MS + 1000 * H_MS)
        self.harness = co_function(TwoSided(), policy, clock=self.clock, max_ahead="30d")
        self.policy = policy

    def batch(self, records: list[Record]) -> None:
        self.clock.advance(MINUTE_MS)
        self.harness.batch([
            pair(("right" if right else "left", key, at * MINUTE_MS, op, n))
            for right, key, at, op, n in records
        ])  # fmt: skip


class Joined:
    def __init__(self, policy: Policy, between: tuple[int, int] | None) -> None:
        self.policy, self.policies = policy, (policy, Policy(ttl_ms=70 * MINUTE_MS))
        self.spec = spec_of("full", between)
        self.record, self.runs = ShardRecord("law", 0), _KeptRuns()
        self.batch_id = self.watermark_ms = 0

    def batch(self, records: list[Record]) -> None:
        rows = [
            Row(int(right), key, BASE_MS + at * MINUTE_MS, n) for right, key, at, _, n in records
        ]
        packets = [encode_packet(steps_of(self.spec, [
            row for row in rows if row.t_ms > self.watermark_ms
        ]))]  # fmt: skip
        advanced = advance(
            self.spec,
            self.record,
            self.runs,
            packets,
            {},
            BatchTimes(self.batch_id, self.watermark_ms, self.batch_id * MINUTE_MS),
            PolicyVersion(1, 0, self.policies[0], right=self.policies[1]),
            JoinStep(),
        )
        list(advanced.cells)
        self.record, self.batch_id = advanced.record, self.batch_id + 1
        self.watermark_ms = max([self.watermark_ms, *(row.t_ms - 1 for row in rows)])

    def rows(self) -> list[tuple[int, int]]:
        table = open_table(self.spec, self.record, self.runs)
        return [
            (_ms(row["deadline"]), _ms(row["created_at"]))
            for part in rows_in_state(table, self.policies)
            for row in part.to_pylist()
        ]


def _ms(moment: datetime | None) -> int:
    return FOREVER_MS if moment is None else (moment - EPOCH) // timedelta(milliseconds=1)


def of_kind(kind: Callable[[], OperatorKind], **arguments: Any) -> Callable[[Policy], Kind]:
    defaults: dict[str, Any] = {
        "delay": "0s",
        "config": None,
        "order": (),
        "read_when": None,
        "min_event_time": "1970-01-02",
        "malformed": None,
        "null_key": "keep",
        "rejects": False,
    }

    def made(schema: Any, *, clock: FakeClock, **more: Any) -> OperatorHarness:
        return OperatorHarness(
            schema, lambda _: kind(), clock, **defaults | arguments | more, is_bounded=True
        )

    return lambda policy: Harnessed(policy, made)


def retained(**arguments: Any) -> Callable[[Policy], Kind]:
    return lambda policy: Harnessed(
        None if "window" in arguments else policy,
        RetainHarness,
        aggregates={"n": "count"},
        **arguments,
    )


def function(policy: Policy) -> Kind:
    # Without State TTL, of whose ends `read_state` tells nothing.
    return Harnessed(
        policy, FunctionHarness, function=Scripted(), output=OUTPUT, columns=["op", "n"]
    )


KINDS: dict[str, Callable[[Policy], Kind]] = {
    "retain": retained(read_when="reads"),
    "retain in order": retained(in_order=True),
    "tumbling windows": retained(window=tumbling("30m")),
    "session windows": retained(window=session("20m")),
    "deduplicate first": of_kind(lambda: deduplication(Keep.FIRST, ["op", "n"], TYPES)),
    "deduplicate last": of_kind(lambda: deduplication(Keep.LAST, ["op", "n"], TYPES)),
    "over": of_kind(lambda: over_kind({"s": "sum(n)"}, ["op", "n"], TYPES), in_order=True),
    "over rows": of_kind(
        lambda: over_kind({"s": "sum(n)"}, ["op", "n"], TYPES, (), Frame(FrameUnit.ROWS, 3)),
        in_order=True,
    ),
    "join_asof": of_kind(
        lambda: as_of("left", ["op"], ["n"], TYPES), in_order=True, read_when="reads"
    ),
    "process": function,
    "co_process": CoFunction,
    "interval join": lambda policy: Joined(policy, (-30 * MINUTE_MS, 10 * MINUTE_MS)),
    "join": lambda policy: Joined(policy, None),
}
RECORDS = st.lists(
    st.tuples(
        st.booleans(),
        st.sampled_from("abcde"),
        st.integers(0, 200),
        st.sampled_from(OPERATIONS),
        st.integers(0, 9),
    ),
    max_size=8,
)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, deadline=None)
@given(st.sampled_from(POLICIES), st.lists(RECORDS, min_size=1, max_size=3), st.integers(0, 30))
def test_figures_are_those_of_the_rows_in_state(
    kind: str, policy: Policy, batches: list[list[Record]], hours: int
) -> None:
    operator = KINDS[kind](policy)
    for records in batches:
        operator.batch(records)
        rows, record = operator.rows(), operator.record
        # Up to when the next batch may come, hours later.
        now_ms = max(record.time_ms, BASE_MS) + hours * H_MS
        figures = operator_statistics(
            "law", operator.policy, [ShardStatistics.of(record, operator.policy)],
            batch_id=0, batch_time_ms=0, policy_version=1, reached_ms=now_ms,
        )  # fmt: skip
        first_ms = min((due_ms for due_ms, _ in rows), default=FOREVER_MS)
        assert figures.live_keys == len(rows)
        assert figures.next_end_ms == first_ms
        assert figures.expiry_lag_ms(0) == max(now_ms - first_ms, 0)
        (due,), (ages,) = keys_due([figures], 0), idle_ages([figures], 0)
        for within, span_ms in DUE_WITHIN_MS.items():
            expected = sum(due_ms <= now_ms + span_ms for due_ms, _ in rows)
            assert due[within] == (expected, len(rows) - expected)
        idle_ms = [now_ms - used_ms for _, used_ms in rows]
        below = [sum(ages.counts[: at + 1]) for at in range(len(AGE_BUCKETS_MS))]
        assert below == [sum(each <= most for each in idle_ms) for most in AGE_BUCKETS_MS]
        assert sum(ages.counts) == len(rows)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("join", "interval join")])
@settings(max_examples=10, deadline=None)
@given(
    st.sampled_from(POLICIES),
    st.sampled_from(POLICIES),
    st.lists(RECORDS, min_size=1, max_size=2),
    st.integers(0, 30),
)
def test_keys_are_explained_and_planned_for_as_their_rows_in_state(
    kind: str, policy: Policy, other: Policy, batches: list[list[Record]], hours: int
) -> None:
    """Of joins, see `test_joins_explained.py`."""
    operator = KINDS[kind](policy)
    assert isinstance(operator, Harnessed)
    for records in batches:
        operator.batch(records)
    harness, record = operator.harness, operator.record
    spec, now_ms = harness._spec.table, max(record.time_ms, BASE_MS) + hours * H_MS
    table, policies = open_table(spec, record, harness._runs), (operator.policy, operator.policy)
    for row in harness.lives():
        key = one_key([row[name] for name in spec.key_names], spec.keys)
        facts = details_of(table, record, key, policies, now_ms)
        deadline_ms = _ms(row["deadline"])
        assert facts.state is (KeyState.OVERDUE if deadline_ms <= now_ms else KeyState.OPEN)
        told = (facts.deadline_ms, facts.written_at_ms, facts.last_access_ms)
        ends_ms = None if deadline_ms == FOREVER_MS else deadline_ms
        assert told == (ends_ms, _ms(row["written_at"]), _ms(row["last_access"]))
        timers_ms = [each["at_ms"] for each in row.get("timers") or []]
        assert facts.timer_at_ms == min(timers_ms, default=None)
    strange = one_key([None if name == "window_end" else "z" for name in spec.key_names], spec.keys)
    assert details_of(table, record, strange, policies, now_ms).state is KeyState.NEVER_SEEN
    old_ms, new_ms = (
        [_ms(each) for each in table.lives(of).column("deadline").to_pylist()]
        for of in (operator.policy, other)
    )
    for each in horizons_of(table, record, policies, (other, other), now_ms):
        at_ms = now_ms + each.in_ms
        by_old, by_new = ([ms <= at_ms for ms in ends] for ends in (old_ms, new_ms))
        more = sum(new and not old for new, old in zip(by_new, by_old, strict=True))
        assert (each.current.keys, each.new.keys) == (sum(by_old), sum(by_new))
        assert each.more.keys == more


def test_keys_that_a_join_has_seen_are_no_rows_even_if_its_policy_remembers_them() -> None:
    joined = Joined(Policy(ttl="1h", remember="forever"), None)
    joined.batch([(False, key, at, "count", 0) for at, key in enumerate("aaab")])
    figures = ShardStatistics.of(joined.record, joined.policy)
    assert (figures.keys_ever_seen, figures.live_keys) == (2, 4)
