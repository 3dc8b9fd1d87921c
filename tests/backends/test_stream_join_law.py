"""The law of `join`: pairs and rows without a match come once, however rows are cut and ordered."""

from collections import Counter
from dataclasses import dataclass, replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.runs.table_runs import LOWEST_HASH
from idlestate.backends.shards.definition import Definition
from idlestate.backends.shards.join_step import apply_join
from idlestate.backends.shards.key_ages import KeyAges
from idlestate.backends.shards.shard_record import RIGHT
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.backends.shards.stream_join import HOW
from idlestate.retention.policy import Policy, TimeDomain
from tests.backends.law_runner import assert_ages_hold
from tests.backends.stream_join_rows import Row, rows_of, spec_of, steps_of
from tests.frequent import assert_frequent
from tests.lengths import by_cases
from tests.reference_stream_joins import JoinedRow, StreamJoinReference

BOUNDS = st.one_of(
    st.none(),
    st.sampled_from([(0, 0), (-3, 5), (-20, 0), (0, 20), (2, 9), (-9, -2), (-100, 100)]),
)
SPANS = st.sampled_from([None, None, 1, 2, 5, 10, 40])


@dataclass(frozen=True)
class Case:
    how: str
    between: tuple[int, int] | None
    spans: list[tuple[int | None, int | None]]
    batches: list[list[Row]]
    watermarks: list[int]
    hash_bits: int
    merge: MergePolicy
    restarts: list[bool]


@st.composite
def cases(draw):
    """Rows up to a delay out of order, those of either input in any batches; spans that change."""
    raw = draw(st.lists(st.tuples(st.booleans(), st.sampled_from(["a", "a", "b", "c", None]),
                                  st.integers(0, 60)), max_size=40))  # fmt: skip
    rows = [Row(int(side), key, 1000 + t, at) for at, (side, key, t) in enumerate(raw)]
    delay = draw(st.sampled_from([0, 3, 20, 60]))
    behind = draw(st.integers(0, 60)) if delay else 0
    # Rows of the right input come up to `behind` later, which the watermark waits for.
    later = draw(st.lists(st.integers(0, delay), min_size=len(rows), max_size=len(rows)))
    rows = [
        row
        for _, row in sorted(
            zip(
                [row.t_ms + by + behind * row.side for row, by in zip(rows, later, strict=True)],
                rows,
                strict=True,
            ),
            key=lambda each: each[0],
        )
    ]
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=6)))
    batches = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    watermarks, highest = [], [-1, -1]
    for batch in batches:
        watermarks.append(min(highest) - delay - 1 if min(highest) > 0 else -1)
        for row in batch:
            highest[row.side] = max(highest[row.side], row.t_ms)
    spans = [draw(st.tuples(SPANS, SPANS))]
    for _ in batches:
        spans.append(draw(st.tuples(SPANS, SPANS)) if draw(st.integers(0, 7)) == 0 else spans[-1])
    end = draw(st.sampled_from([max(watermarks), max(highest), 1 << 50]))
    return Case(
        draw(st.sampled_from(HOW)),
        draw(BOUNDS),
        spans[: len(batches) + 1],
        [*batches, []],
        [*watermarks, end],
        draw(st.sampled_from([0, 1, 64])),
        MergePolicy(
            floor_rows=draw(st.sampled_from([0, 1024])),
            ratio=draw(st.sampled_from([0.0, 1.1, 9.0])),
            segment_rows=draw(st.sampled_from([2, 262_144])),
            segment_bytes=draw(st.sampled_from([1, 300, 1 << 28])),
        ),
        draw(st.lists(st.booleans(), min_size=len(batches) + 1, max_size=len(batches) + 1)),
    )


def policies_of(spans):
    return tuple(Policy() if span is None else Policy(ttl_ms=span) for span in spans)


def open_rows(runs):
    rows, _ = runs.open_rows(LOWEST_HASH, 1 << 20)
    return rows


def taken(reference, batch, spans, watermark):
    """Take the rows of a batch that are not late, and sweep; these rows."""
    on_time = [row for row in batch if row.t_ms > watermark]
    reference.spans_ms = spans
    for row in on_time:
        reference.take(row.side, JoinedRow((row.key,), row.t_ms, row.value))
    reference.sweep(watermark)
    return on_time


@by_cases("examples", 22)
def test_rows_equal_those_of_the_reference(examples):
    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(cases())
    def law(case: Case) -> None:
        spec = spec_of(case.how, case.between)
        reference = StreamJoinReference(case.how, case.between, case.spans[0])
        table, ages, found = ShardTable.empty(spec), KeyAges(), []
        for batch_id, batch in enumerate(case.batches):
            spans, watermark = case.spans[batch_id], case.watermarks[batch_id]
            on_time = taken(reference, batch, spans, watermark)
            outcome = apply_join(
                table,
                steps_of(spec, on_time, case.hash_bits),
                policies_of(spans),
                watermark,
                batch_id,
                case.merge,
            )
            rows = rows_of(outcome)
            assert all(row["batch_id"] == batch_id for row in rows)
            found += [((row["k"],), row["l"], row.get("r")) for row in rows]
            assert Counter(found) == Counter(reference.found)
            table = outcome.table
            in_state = [(table.current, outcome.current.policy)]
            in_state.append((table.others[RIGHT], outcome.others[RIGHT].policy))
            ages = ages.after(
                in_state,
                1000 * batch_id,
                changed=outcome.keys_changed,
                first_end_ms=outcome.first_end_ms,
            )
            if case.restarts[batch_id]:
                definition = Definition.from_json(Definition.of(spec, TimeDomain.EVENT).to_json())
                assert definition.spec() == spec
                table = replace(table, spec=definition.spec())
                assert_ages_hold(ages, in_state)
            kept = [table.current.live, table.others[RIGHT].live]
            assert kept == [len(open_rows(table.current)), len(open_rows(table.others[RIGHT]))]
            if spec.kind.emits_pairs:
                assert kept == [len(rows) for rows in reference.rows]

    law()


def test_cases_have_rows_in_their_results():
    def contents(case: Case) -> list[str]:
        reference = StreamJoinReference(case.how, case.between, case.spans[0])
        for batch, spans, watermark in zip(case.batches, case.spans, case.watermarks, strict=True):
            taken(reference, batch, spans, watermark)
        return ["rows"] if reference.found else []

    assert_frequent(contents, {"rows": 0.1}, cases())
