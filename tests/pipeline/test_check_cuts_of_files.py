"""`check_cuts` on pipelines of files, on functions and on harnesses: all that a user has."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from idlestate import BatchedCoProcessFunction, KeyedCoProcessFunction, KeyedProcessFunction
from idlestate.config.loading import load_config
from idlestate.errors import RefusedError
from idlestate.state import ValueStateDescriptor
from idlestate.testing import RetainHarness, check_cuts

START = datetime(2025, 3, 3, tzinfo=UTC)
FILE = """
version: 1
policies: {long: {ttl: 30s, min_gap: 0s}, short: {ttl: 20s, min_gap: 0s}}
pipelines:
  p:
    source: {path: in, format: json, schema: {k: string, t: string, n: bigint}}
    event_time: t
    delay: 5s
    key: [k]
    policy: long
    sinks: {results: out/results}
    checkpoint: out/checkpoint
"""
INPUT = "source: {path: in2, format: json, schema: {k: string, at: timestamp, m: bigint}}"
RIGHT = f"    right: {{{INPUT}, event_time: at}}\n"
ORDERED = "    in_order: true\n"
SECONDS = (3, 1, 2, 9, 8, 14, 12, 30, 29, 91)
OUTPUT = "key string, n bigint"


def row(second: int) -> dict[str, Any]:
    return {"k": "kl"[second % 2], "t": START + timedelta(seconds=second), "n": second % 7}


def other(second: int) -> dict[str, Any]:
    moment = START + timedelta(seconds=second)
    return {"k": "kl"[second % 2], "at": moment, "m": second}


RECORDS = [row(second) for second in SECONDS]
PAIRS = [pair for at in SECONDS for pair in (("left", row(at)), ("right", other(at + 1)))]


class Sums(KeyedProcessFunction):
    """Adds up the records of a key."""

    total = ValueStateDescriptor(name="total", value_type=pa.int64(), default=0)

    def process_element(self, row: Any, ctx: Any) -> Any:
        total = ctx.state(self.total)
        total.update(total.value() + row.n)
        yield ctx.key, total.value()


class Newest(KeyedCoProcessFunction):
    """What the right input said last, with each left row."""

    newest = ValueStateDescriptor(name="newest", value_type=pa.int64(), default=-1)

    def process_element1(self, row: Any, ctx: Any) -> Any:
        yield ctx.key, ctx.state(self.newest).value()

    def process_element2(self, row: Any, ctx: Any) -> Any:
        ctx.state(self.newest).update(row.m)


class NewestOfMany(BatchedCoProcessFunction):
    """The same, in calls with many keys."""

    newest = Newest.newest

    def process_batch1(self, rows: Any, ctx: Any) -> Any:
        return {"key": ctx.keys, "n": ctx.state(self.newest).value()}

    def process_batch2(self, rows: Any, ctx: Any) -> Any:
        ctx.state(self.newest).update(rows.m)


def called(name: str) -> str:
    return f"    function: {__name__}:{name}\n    output: {OUTPUT}\n".replace(OUTPUT, f'"{OUTPUT}"')


def written(folder: Path, fields: str, without: str = "") -> Path:
    path = folder / "p.yaml"
    path.write_text((FILE + fields).replace(without, ""))
    return path


@pytest.mark.parametrize(
    ("fields", "records"),
    [
        ("    aggregates: {n: count, s: sum(n)}\n" + ORDERED, RECORDS),
        ("    kind: over\n    aggregates: {s: sum(n)}\n    rows: 3\n", RECORDS),
        ("    kind: over\n    aggregates: {s: sum(n)}\n    range: 4s\n", RECORDS),
        ("    kind: deduplicate\n" + ORDERED, RECORDS),
        ("    kind: process\n" + ORDERED + called("Sums"), RECORDS),
        ("    kind: co_process\n" + RIGHT + called("Newest"), PAIRS),
        ("    kind: co_process\n" + RIGHT + called("NewestOfMany"), PAIRS),
        ("    kind: join\n    how: full\n" + RIGHT, PAIRS),
        ('    kind: join\n    how: left\n    between: ["-3s", 5s]\n' + RIGHT, PAIRS),
        (
            "    kind: join_asof\n    how: left\n" + RIGHT.replace("right", "versions"),
            [({"left": "probes", "right": "versions"}[name], each) for name, each in PAIRS],
        ),
    ],
)
def test_every_kind_of_a_file_passes_in_order(
    fields: str, records: list[Any], tmp_path: Path
) -> None:
    check_cuts(written(tmp_path, fields), records, runs=1)


def test_a_window_has_no_policy(tmp_path: Path) -> None:
    fields = "    window: session(4s)\n    aggregates: {n: count}\n"
    check_cuts(written(tmp_path, fields, "    policy: long\n"), RECORDS, runs=1)


@pytest.mark.parametrize(
    ("fields", "records", "fewest"),
    [
        ("    kind: process\n    in_order: false\n" + called("Sums"), RECORDS, 2),
        pytest.param(
            *("    kind: co_process\n    in_order: false\n" + RIGHT + called("Newest"), PAIRS, 2),
            marks=pytest.mark.long,
        ),
        ("    kind: deduplicate\n", RECORDS, 2),
    ],
)
def test_a_dependence_on_cuts_is_found_with_the_fewest_records(
    fields: str, records: list[Any], fewest: int, tmp_path: Path
) -> None:
    with pytest.raises(AssertionError) as raised:
        check_cuts(load_config(written(tmp_path, fields)), records, uid="p")
    text = str(raised.value)
    assert text.startswith("results depend on how records are divided into batches\nbatch 0:")
    assert len([line for line in text.splitlines() if line.startswith("  ")]) == fewest


@pytest.mark.parametrize(
    "fields",
    ["    kind: deduplicate\n", "    kind: process\n    in_order: false\n" + called("Sums")],
)
def test_of_records_of_one_time_the_larger_values_are_younger(fields: str, tmp_path: Path) -> None:
    file = written(tmp_path, fields)
    records = [row(at) | {"t": START} for at in (1, 3)]
    check_cuts(file, records, runs=0)
    with pytest.raises(AssertionError, match="divided into batches"):
        check_cuts(file, records[::-1], runs=0)


def test_functions_take_the_arguments_of_their_harness() -> None:
    shared: dict[str, Any] = {"key": "k", "output": OUTPUT, "event_time": "t", "delay": "5s"}
    check_cuts(Sums(), RECORDS, runs=1, in_order=True, **shared)
    with pytest.raises(AssertionError, match="divided into batches"):
        check_cuts(Sums(), RECORDS, in_order=False, **shared)
    check_cuts(Newest(), PAIRS, runs=1, right_event_time="at", **shared)


def test_a_harness_is_made_anew() -> None:
    schema = {"k": pa.string(), "t": pa.timestamp("us", "UTC"), "n": pa.int64()}
    harness = RetainHarness(
        schema, key="k", aggregates={"n": "count"}, event_time="t", delay="5s", in_order=True
    )
    check_cuts(harness, RECORDS, runs=1)
    assert harness.lives() == []
    harness.batch(RECORDS[:1])
    with pytest.raises(RefusedError, match="this harness has seen batches; pass a new one"):
        check_cuts(harness, RECORDS)


def test_columns_are_those_of_the_records_if_the_file_names_none(tmp_path: Path) -> None:
    schema = ", schema: {k: string, t: string, n: bigint}"
    file = written(tmp_path, "    aggregates: {n: sum(n)}\n" + ORDERED, schema)
    check_cuts(str(file), RECORDS, runs=1)


def test_what_cannot_be_checked(tmp_path: Path) -> None:
    file = written(tmp_path, "    aggregates: {n: count}\n")
    with pytest.raises(RefusedError, match="does not define pipeline 'q'; it defines p"):
        check_cuts(file, RECORDS, uid="q")
    with pytest.raises(RefusedError, match="key: pass these with a function alone"):
        check_cuts(file, RECORDS, key="k")
    with pytest.raises(RefusedError, match="Sums'> cannot be checked; pass the path"):
        check_cuts(Sums, RECORDS)
    keyed = "    key: [k]\n"
    query = "    query: SELECT k, count(*) FROM source GROUP BY k\n"
    with pytest.raises(RefusedError, match="pipeline p has a query, whose expressions only Spark"):
        check_cuts(written(tmp_path, query, keyed), RECORDS)


@pytest.mark.parametrize(
    ("records", "runs", "said"),
    [
        (None, 1, "records None is not valid; pass a list"),
        (5, 1, "records 5 is not valid"),
        ([], "many", "runs 'many' is not valid; pass a whole number"),
        ([], -1, "runs -1 is not valid"),
    ],
)
def test_records_and_runs_that_are_none_are_refused(records: Any, runs: Any, said: str) -> None:
    with pytest.raises(RefusedError, match=said):
        check_cuts("nowhere.yaml", records, runs=runs)
