"""Rows in order in a sidecar: every batch gives what it gives in Spark's own store."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from idlestate.backends.runs.table_runs import LOWEST_HASH
from idlestate.backends.shards import packet_codec
from idlestate.backends.shards.as_of import as_of
from idlestate.backends.shards.bounded_over import over_kind
from idlestate.backends.shards.deduplication import Keep
from idlestate.backends.shards.frames import Frame, FrameUnit
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.pipeline.reached_source import ReachedReader
from idlestate.pipeline.sidecar_link import SidecarLink
from idlestate.retention.windows import parse_window
from idlestate.sidecar.core.data_calls import Calls
from idlestate.sidecar.protocol.errors import DamagedDirectoryError
from idlestate.sidecar.protocol.message import Message
from idlestate.sidecar.protocol.transfers import stream_of
from idlestate.timers.steady_clock import SteadyClock
from tests.backends.law_cases import COLUMNS, ORDERS, Case
from tests.backends.law_runner import Found, run_table, spec_of
from tests.backends.test_deduplication_law import deduplication_of, with_writes_and_order
from tests.backends.test_in_order_law import disordered
from tests.backends.test_law import IDLE, batch, named_case
from tests.lengths import by_cases
from tests.sidecar.test_law import UID, Sidecar, swept_as_it_does

OWN = [name for name in COLUMNS if name != "stamp"]  # `plain_rows` takes times for whole ms
TYPES = {name: kind for name, (kind, _) in (COLUMNS | ORDERS).items()}


def framed(case: Case, frame: Frame) -> TableSpec:
    kind = over_kind(case.aggregates, [*OWN, *case.order], TYPES, case.order, frame)
    return replace(spec_of(case), kind=kind)


def joined(case: Case) -> TableSpec:
    kind = as_of("left", ["i8", "text"], ["i32", "day"], TYPES, ())
    return replace(spec_of(case), kind=kind, order=())


def without_order(case: Case) -> Case:
    batches = [[replace(record, order=()) for record in each] for each in case.batches]
    return replace(case, order=(), batches=batches)


SPECS: dict[str, tuple[Callable[[Case], Case], Callable[[Case], TableSpec]]] = {
    "retain": (lambda case: case, spec_of),
    "deduplicate": (
        with_writes_and_order,
        lambda case: deduplication_of(case, Keep.FIRST, ["i32", "text"]),
    ),
    "session": (
        lambda case: case,
        lambda case: replace(spec_of(case), window=parse_window("session(30ms)")),
    ),
    "over": (with_writes_and_order, lambda case: framed(case, Frame())),
    "over rows": (with_writes_and_order, lambda case: framed(case, Frame(FrameUnit.ROWS, 3))),
    "join_asof": (without_order, joined),
}


def sorted_rows(rows: list[Found]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)


@by_cases("examples", 5)
@pytest.mark.parametrize(
    ("operator", "kind"),
    # What differs between the two stores is tested elsewhere.
    [
        ("retain", "rocksdb"),
        ("deduplicate", "heap"),
        ("session", "heap"),
        ("over", "heap"),
        ("over rows", "heap"),
        ("join_asof", "rocksdb"),
    ],
)
def test_every_batch_gives_the_rows_of_sparks_own_store(
    operator: str, kind: str, examples: int
) -> None:
    """Also if the sidecar dies before it is committed, and if its tasks run again."""
    fitted, spec_for = SPECS[operator]

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), deadline=None)
    @given(disordered().map(fitted).map(swept_as_it_does))
    def law(case: Case) -> None:
        spec = replace(spec_for(case), in_order=True)
        _, expected, tally = run_table(case, spec, in_form=False)
        found: list[Found] = []
        with (
            tempfile.TemporaryDirectory() as folder,
            closing(Sidecar(case, kind, Path(folder) / "state", spec)) as sidecar,
        ):
            for batch_id, to_ms in enumerate(case.sweeps):
                assert to_ms is not None
                rows = sidecar.run(batch_id, to_ms)
                if case.restores[batch_id % len(case.restores)]:
                    sidecar.close()
                    sidecar.start()
                    assert sorted_rows(sidecar.run(batch_id, to_ms)) == sorted_rows(rows)
                found += rows
                sidecar.reached_ms = max(0, to_ms)
                sidecar.operator.batches.settle()
            assert sidecar.tally() == tally
            assert not sum(shard.held.live for shard in sidecar.operator.state.shards)
            ends = [row for row in found if row.get("change") == "expire"]
            assert sorted_rows(sidecar.expired(0)) == sorted_rows(ends), "for other consumers"
        assert sorted_rows(found) == sorted_rows(expected)

    law()


@pytest.fixture
def sidecar(tmp_path: Path) -> Iterator[Sidecar]:
    """A life that ends at 200 unless the row at 190 that waits counts before; 169 was reached."""
    case = named_case(
        IDLE,
        [batch("a100 b120"), batch("a190 c300"), [], batch("c301")],
        [0, 120, 299, 299],
        is_sorted=True,
        aggregates={"n": "count"},
    )
    spec = replace(spec_of(case), in_order=True)
    made = Sidecar(case, "heap", tmp_path / "state", spec)
    for batch_id, (to_ms, reached_ms) in enumerate([(0, 120), (120, 299)]):
        made.run(batch_id, to_ms)
        made.reached_ms = reached_ms
        made.operator.batches.settle()
    yield made
    made.close()


def test_no_life_ends_between_batches(sidecar: Sidecar) -> None:
    operator = sidecar.operator
    assert operator.due_ms(0) == 299
    assert not operator.sweeper.sweep(operator.due_ms(0), sidecar.clock, 1000)
    assert sidecar.expired(0) == []
    assert [(row["key"], row["n"]) for row in sidecar.lives()] == [(("a",), 1), (("b",), 1)]


def test_a_look_shows_lives_that_rows_which_wait_may_continue(sidecar: Sidecar) -> None:
    operator = sidecar.operator
    keys = stream_of(pa.table({sidecar.spec.key_names[0]: ["a", "b", "c"]}))
    assert len(operator.look_up(keys, 0)[0]) == 2
    shards = range(len(operator.state.shards))
    assert sum(len(operator.lives(at, 0, LOWEST_HASH)[0]) for at in shards) == 2


def test_a_batch_without_data_comes_when_rows_or_lives_are_due(
    sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wire:
        def call(self, name: str, header: dict[str, str]) -> Message:
            table = Calls(sidecar.host, SteadyClock(sidecar.clock)).table
            return Message.decode(table.answer(name, Message(header).encode()))

        def close(self) -> None:
            pass

    monkeypatch.setattr(SidecarLink, "connect", lambda _: Wire())
    reader = ReachedReader({"sidecar": "unix:nowhere", "uid": UID})

    def times(start: dict[str, int]) -> tuple[dict[str, int], list[int]]:
        end = reader.latestOffset(start)
        parts = reader.partitions(start, end)
        rows = [row for part in parts for each in reader.read(part) for row in each.to_pylist()]
        return end, [row["reached_ms"] for row in rows]

    offset, found = times(reader.initialOffset())
    assert (offset, found) == ({"reached_ms": 299}, [299])
    assert times(offset) == (offset, [])
    sidecar.run(2, 299)
    sidecar.operator.batches.settle()
    assert sidecar.operator.owed_ms is None
    assert times(offset) == (offset, []), "it has had its turn"
    reader.stop()
    sidecar.reached_ms = 300
    sidecar.run(3, 299)
    sidecar.operator.batches.settle()
    assert times(offset) == ({"reached_ms": 300}, [300]), "c waits until 300"


def test_rows_that_another_version_left_waiting_are_refused_as_such(
    sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packet_codec, "_VERSION", b"next")
    told = f"^operator '{UID}': waiting rows .*; use the version of idlestate that stored them"
    with pytest.raises(DamagedDirectoryError, match=told):
        sidecar.run(2, 299)
    key = stream_of(pa.table({sidecar.spec.key_names[0]: ["a"]}))
    with pytest.raises(DamagedDirectoryError, match=told):
        sidecar.operator.explain(key, 0)
