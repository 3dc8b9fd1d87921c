"""Rows that cannot count: each is counted under its reason and written to `rejects`, none stops a
run, and none changes what the good rows come to."""

import json
import os
from collections import Counter
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.service.command_line import CommandLine, Said, assert_good, event
from tests.service.rows import last_counts, rows

pytestmark = pytest.mark.spark

GOOD = [("2025-03-03T10:00:00Z", "ann", 5), ("2025-03-03T10:01:00Z", "bob", 7)]
ANCIENT, FUTURE = "1969-07-20T20:17:00Z", "2199-01-01T00:00:00Z"
NEXT_HOUR, LATE = "2025-03-03T11:30:00Z", "2025-03-03T10:02:00Z"
REASONS = {"malformed": 3, "null_time": 1, "too_old": 1, "too_far_ahead": 1, "late": 1}


def check(line: CommandLine, said: Said, reasons: dict[str, int]) -> None:
    """Good rows are kept, the others counted and written."""
    assert_good(said)
    found = rows(line.out / "rejects")
    assert Counter(row["reason"] for row in found) == reasons
    assert last_counts(line.out / "results") == {"ann": 1, "bob": 1, "cid": 1, "dot": 1}
    assert {row["user"]: row["total"] for row in rows(line.out / "expired")} == {"ann": 5, "bob": 7}
    summary = said.summary()
    rejected = {name: count for name, count in reasons.items() if name != "late"}
    assert summary["late rows"] == "1"
    assert summary["rejected rows"].partition(" ")[0] == str(sum(rejected.values()))
    for name, count in rejected.items():
        assert f"{count} {name}" in summary["rejected rows"]
    assert summary["rows"] == str(5 + sum(reasons.values()))


def rejected(line: CommandLine, reason: str) -> list[dict[str, object]]:
    return [
        json.loads(row["rejected"]) for row in rows(line.out / "rejects") if row["reason"] == reason
    ]


def test_json_lines(here):
    bad = ['{"event_time": "2025-03-0', "[1, 2", event("2025-03-03T10:00:00Z", "x")[:-2] + '"y"}']
    here.add("0.json", [event(*row) for row in GOOD] + bad)
    here.add("1.json", [event(None, "nil"), event(ANCIENT, "old"), event(FUTURE, "new")])
    here.add("2.json", [event(NEXT_HOUR, "cid"), event(NEXT_HOUR, "dot")])
    here.add("3.json", [event(LATE, "ann"), event(NEXT_HOUR, "ann", 1)])
    here.write()
    said = here.run()
    check(here, said, REASONS)
    assert [row["_corrupt_record"] for row in rejected(here, "malformed")][:2] == bad[:2]
    assert rejected(here, "late")[0]["user"] == "ann"
    old = rejected(here, "too_old")[0]
    assert old["event_time"] == ANCIENT.replace("Z", ".000Z")
    assert (old["user"], old["amount"], old["_corrupt_record"]) == ("old", 1, None)


@pytest.mark.long
def test_csv_packed_with_gzip(here):
    head = "event_time,user,amount"
    bad = ["yesterday,x,1", "2025-03-03T10:00:00Z,x,many", "2025-03-03T10:00:00Z,x,1,2,3"]
    files = [
        [*(",".join(map(str, row)) for row in GOOD), *bad],
        [",nil,1", f"{ANCIENT},old,1", f'{FUTURE},"new",1'],
        [f"{NEXT_HOUR},cid,1", f"{NEXT_HOUR},dot,1"],
        [f"{LATE},ann,1", f"{NEXT_HOUR},ann,1"],
    ]
    for number, content in enumerate(files):
        here.add(f"{number}.csv.gz", [head, *content])
    here.write(source=here.source(format="csv"))
    check(here, here.run(), REASONS)
    assert rejected(here, "malformed")[0]["_corrupt_record"] == bad[0]


@pytest.mark.parametrize(
    ("escape", "quoted"), [('"', '""'), pytest.param(None, '\\"', marks=pytest.mark.long)]
)
def test_quotes_in_csv(here, escape, quoted):
    """As pandas and spreadsheets write them, and as Spark does."""
    value = f"the {quoted}new{quoted}, ann"
    here.add("0.csv", ["event_time,user,amount", f'2025-03-03T10:00:00Z,"{value}",5'])
    here.write(source=here.source(format="csv", escape=escape))
    assert_good(here.run())
    assert last_counts(here.out / "results") == {'the "new", ann': 1}


@pytest.mark.long
def test_parquet(here):
    schema = pa.schema(
        [("event_time", pa.timestamp("us", "UTC")), ("user", pa.string()), ("amount", pa.int64())]
    )
    files = [
        GOOD,
        [(None, "nil", 1), (ANCIENT, "old", 1), (FUTURE, "new", 1)],
        [(NEXT_HOUR, "cid", 1), (NEXT_HOUR, "dot", 1)],
        [(LATE, "ann", 1), (NEXT_HOUR, "ann", 1)],
    ]
    for number, content in enumerate(files):
        made = [(moment(time), user, amount) for time, user, amount in content]
        table = pa.table(dict(zip(schema.names, zip(*made, strict=True), strict=True)), schema)
        path = here.add(f"{number}.parquet", [])
        times = path.stat().st_atime, path.stat().st_mtime
        pq.write_table(table, path)
        os.utime(path, times)
    here.write(source=here.source(format="parquet", schema=None))
    check(here, here.run(), {name: n for name, n in REASONS.items() if name != "malformed"})


@pytest.mark.long
@pytest.mark.parametrize("pattern", [None, "dd.MM.yyyy HH:mm"])
def test_event_times_written_as_text(here, pattern):
    """A text that is no time makes its row malformed, as it does where the type is timestamp."""
    time = "2025-03-03T10:00:00Z" if pattern is None else "03.03.2025 10:00"
    here.add("0.json", [event(time, "ann"), event("noon", "x"), event("", "y"), event(None, "z")])
    source = here.source(schema=None, timestamp_format=pattern)
    here.write(source=source, aggregates={"n": "count", "at": "max(event_time)"})
    assert_good(here.run())
    assert last_counts(here.out / "results") == {"ann": 1}
    moments = last_counts(here.out / "results", "at")
    assert moments["ann"].replace(tzinfo=UTC) == datetime(2025, 3, 3, 10, tzinfo=UTC)
    assert [row["_corrupt_record"] for row in rejected(here, "malformed")] == ["noon", ""]
    assert [row["user"] for row in rejected(here, "null_time")] == ["z"]


def test_rows_are_counted_also_where_no_folder_takes_them(here):
    here.add("0.json", [event("2025-03-03T10:00:00Z", "ann"), event(None, "nil"), "{"])
    here.write(sinks={"results": str(here.out / "results")})
    said = here.run()
    assert_good(said)
    assert said.summary()["rejected rows"] == "2 (1 null_time, 1 malformed)"
    assert sorted(path.name for path in here.out.iterdir() if path.is_dir()) == [
        "checkpoint",
        "results",
    ]


def test_nothing_but_bad_rows(here):
    here.add("0.json", ["{", event(None, "nil")])
    here.write()
    said = here.run()
    assert_good(said)
    assert said.summary()["live now"].startswith("0 keys")
    assert Counter(row["reason"] for row in rows(here.out / "rejects")) == {
        "malformed": 1,
        "null_time": 1,
    }


def moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text).astimezone(UTC)
