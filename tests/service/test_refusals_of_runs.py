"""Input, configuration, checkpoint and sinks that do not go together: plain messages that name
what is wrong and the way out, and no state lost by it."""

import shutil
from pathlib import Path

import pytest

from tests.service.command_line import CommandLine, assert_good, assert_refused, event
from tests.service.rows import last_counts, rows
from tests.small_disk import disk, make_read_only  # noqa: F401 - a fixture

pytestmark = pytest.mark.spark

FIRST = [event("2025-03-03T10:00:00Z", "ann", 5), event("2025-03-03T10:01:00Z", "bob", 7)]
SECOND = [event("2025-03-03T10:10:00Z", "ann", 1)]


@pytest.fixture
def ran(here: CommandLine) -> CommandLine:
    """A pipeline that has run over one file."""
    here.add("0.json", FIRST)
    here.write()
    assert_good(here.run())
    return here


# ---- columns


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"key": ["usr"]}, ["column usr not found", "user string"]),
        ({"aggregates": {"n": "sum(price)"}}, ["price", "amount"]),
        ({"event_time": "at"}, ["time column at not found", "event_time"]),
        ({"order": ["number"]}, ["column number not found"]),
        ({"read_when": "looks"}, ["read_when column looks not found"]),
        ({"read_when": "amount"}, ["read_when column amount is not boolean"]),
        ({"aggregates": {"n": "sum(user)"}}, ["sum(user)", "numbers"]),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_columns_that_the_input_has_not(here, changed, words):
    here.add("0.json", FIRST)
    here.write(**changed)
    assert_refused(here.run(), "clicks", *words)
    assert not (here.checkpoint / "offsets").exists()


# ---- input


def test_an_empty_folder_whose_columns_are_unknown(here):
    here.write(source=here.source(format="parquet", schema=None))
    assert_refused(here.run(), str(here.events), "no parquet files", "schema")


def test_an_empty_folder_whose_columns_are_known_is_an_empty_input(here):
    here.write()
    said = here.run()
    assert_good(said)
    assert said.summary()["rows"] == "0"
    here.add("0.json", FIRST)
    said = here.run()
    assert_good(said)
    assert last_counts(here.out / "results") == {"ann": 1, "bob": 1}


@pytest.mark.long
def test_a_folder_of_empty_files(here):
    here.add("0.json", [])
    here.write()
    said = here.run()
    assert_good(said)
    assert said.summary()["rows"] == "0"


@pytest.mark.parametrize("pattern", ["YYYY-MM-dd", "yyyy-MM-ddTHH:mm:ss"])
def test_a_time_pattern_that_spark_does_not_know(here, pattern):
    here.add("0.json", FIRST)
    here.write(source=here.source(timestamp_format=pattern))
    assert_refused(here.run(), f"timestamp_format: {pattern} is not a pattern", "yyyy", "quotes")
    assert not (here.checkpoint / "offsets").exists()


def test_a_corrupt_parquet_file_that_columns_are_taken_from(here):
    here.add("0.parquet", ["this is no parquet"])
    here.write(source=here.source(format="parquet", schema=None))
    assert_refused(here.run(), "0.parquet", "parquet")


def test_a_corrupt_parquet_file_in_a_run(here):
    here.add("0.parquet", ["this is no parquet"])
    here.write(source=here.source(format="parquet"))
    assert_refused(here.run(), "0.parquet", "same command")


@pytest.mark.long
def test_a_corrupt_gzip_file(here):
    here.add("0.json", FIRST)
    here.add("1.json", ["this is not packed"]).rename(here.events / "1.json.gz")
    here.write()
    assert_refused(here.run(), "1.json.gz", "same command")


@pytest.mark.parametrize(
    ("header", "found"),
    [
        pytest.param("event_time,amount,user", "found: event_time, amount, user;", id="order"),
        pytest.param(
            "2025-03-03T10:00:00Z,bob,7",
            "found: 2025-03-03T10:00:00Z, bob, 7;",
            id="no header",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "event_time,user,amount,page",
            "found: 4; expected: 3",
            id="more columns",
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_csv_file_with_another_header_is_not_misread(here, header, found):
    right = ["event_time,user,amount", "2025-03-03T10:00:00Z,ann,5"]
    here.add("0.csv", right)
    wrong = here.add("1.csv", [header, "2025-03-03T10:01:00Z,bob,7"])
    here.write(source=here.source(format="csv"))
    assert_refused(here.run(), "1.csv", "columns of the source", found, "same command")
    assert last_counts(here.out / "results") == {"ann": 1}
    wrong.unlink()
    here.add("1.csv", [right[0], "2025-03-03T10:01:00Z,bob,7"])
    assert_good(here.run())
    assert last_counts(here.out / "results") == {"ann": 1, "bob": 1}


def test_a_file_that_is_gone_when_its_batch_runs_again_is_not_skipped(here):
    here.add("0.json", FIRST)
    bad = here.add("1.json", ["this is not packed"]).rename(here.events / "1.json.gz")
    here.write()
    assert_refused(here.run(), "1.json.gz", "same command")
    bad.unlink()
    assert_refused(here.run(), "1.json.gz is gone", "batch 1 reads it", "put it back")
    here.add("1.json.gz", SECOND)
    assert_good(here.run())
    assert last_counts(here.out / "results") == {"ann": 2, "bob": 1}


def test_a_single_file_that_spark_does_not_read(here):
    hidden = here.add("_0.json", FIRST)
    here.write()
    assert_refused(here.run("--source", str(hidden)), "_0.json would not be read", "rename it")


def test_a_file_beside_partition_folders(here):
    here.add("0.json", FIRST)
    partition = here.events / "day=1"
    partition.mkdir()
    here.add("1.json", SECOND).rename(partition / "1.json")
    here.write()
    assert_refused(here.run(), "file 0.json beside them", "move it into one")
    (here.events / "0.json").rename(partition / "0.json")
    assert_good(here.run())
    assert last_counts(here.out / "results") == {"ann": 2, "bob": 1}


def test_a_parquet_file_with_other_types_than_the_first(here):
    import pyarrow as pa
    import pyarrow.parquet as pq

    for number, amount in enumerate([1, "one"]):
        path = here.add(f"{number}.parquet", [])
        pq.write_table(pa.table({"user": ["ann"], "amount": [amount]}), path)
    schema = {"event_time": "timestamp", "user": "string", "amount": "bigint"}
    here.write(source=here.source(format="parquet", schema=schema))
    assert_refused(here.run(), "1.parquet", "amount")


@pytest.mark.long
def test_a_sum_that_does_not_fit(here):
    here.add("0.json", [event("2025-03-03T10:00:00Z", "ann", 2**63 - 1)])
    here.write()
    assert_good(here.run())
    here.add("1.json", SECOND)
    assert_refused(here.run(), "sum(amount) does not fit a 64-bit integer")
    # Nothing of that batch is kept; what was there is.
    assert {row["batch_id"] for row in rows(here.out / "results")} == {0}


# ---- checkpoint and sinks


@pytest.mark.long
def test_a_deleted_checkpoint_does_not_write_into_what_its_sinks_hold(ran):
    before = rows(ran.out / "results")
    shutil.rmtree(ran.checkpoint)
    said = ran.run()
    assert_refused(said, str(ran.out / "results"), "belongs to another query", "--afresh")
    assert rows(ran.out / "results") == before
    assert_good(ran.run("--afresh"))
    assert last_counts(ran.out / "results") == {"ann": 1, "bob": 1}


def test_a_sink_folder_with_other_files(here):
    here.add("0.json", FIRST)
    here.write()
    theirs = here.out / "expired"
    theirs.mkdir(parents=True)
    (theirs / "thesis.txt").write_text("mine")
    assert_refused(here.run(), str(theirs), "thesis.txt", "choose an empty or new folder")
    assert (theirs / "thesis.txt").read_text() == "mine"


@pytest.mark.skipif(not Path("/proc").exists(), reason="nobody may make a folder in /proc")
@pytest.mark.parametrize("sink", ["results", pytest.param("expired", marks=pytest.mark.long)])
def test_a_sink_folder_that_cannot_be_made(here, sink):
    here.add("0.json", FIRST)
    places = {name: str(here.out / name) for name in ("results", "expired", "rejects")}
    here.write(sinks={**places, sink: f"/proc/idlestate/{sink}"})
    words = (f"sink {sink}", f"/proc/idlestate/{sink}", "cannot be created", "another path")
    assert_refused(here.run(), *words)
    assert not (here.checkpoint / "offsets").exists()


def test_a_sink_folder_that_cannot_be_written_to(here, disk):  # noqa: F811
    """Told before the first batch."""
    here.add("0.json", FIRST)
    places = {"results": str(here.out / "results"), "expired": str(disk / "expired")}
    (disk / "expired").mkdir()
    make_read_only(disk)
    here.write(sinks=places)
    assert_refused(here.run(), "sink expired", places["expired"], "Read-only", "another path")
    assert not (here.checkpoint / "offsets").exists()


@pytest.mark.long
def test_a_sink_folder_that_can_no_longer_be_written_to(here, disk):  # noqa: F811
    here.write(sinks={name: str(disk / name) for name in ("results", "expired")})
    here.add("0.json", FIRST)
    assert_good(here.run())
    here.add("1.json", SECOND)
    make_read_only(disk)
    assert_refused(here.run(), "sink results", str(disk), "Read-only", "another path")


def test_a_sink_folder_that_is_a_file(here):
    here.add("0.json", FIRST)
    here.write()
    here.out.mkdir()
    (here.out / "results").write_text("mine")
    assert_refused(here.run(), str(here.out / "results"))
    assert (here.out / "results").read_text() == "mine"


@pytest.mark.long
def test_a_sink_folder_below_a_file(here):
    here.add("0.json", FIRST)
    here.out.mkdir()
    (here.out / "note").write_text("mine")
    here.write(sinks={"results": str(here.out / "note" / "results")})
    assert_refused(here.run(), str(here.out / "note"))


@pytest.mark.parametrize(
    "more",
    [pytest.param([], id="no new rows", marks=pytest.mark.long), pytest.param(SECOND, id="new")],
)
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        pytest.param(
            {"aggregates": {"n": "count", "total": "max(amount)"}},
            ["aggregate total was sum(amount), is now max(amount)", "another name"],
            id="aggregates",
            marks=pytest.mark.long,
        ),
        pytest.param(
            {"key": ["user", "amount"]}, ["keys was", "amount"], id="keys", marks=pytest.mark.long
        ),
        pytest.param(
            {"shards": 4}, ["shards was 2, is now 4"], id="shards", marks=pytest.mark.long
        ),
    ],
)
def test_an_operator_that_is_not_the_checkpoints(ran, changed, words, more):
    if more:
        ran.add("1.json", more)
    before = rows(ran.out / "results")
    ran.write(**changed)
    assert_refused(ran.run(), "'clicks'", str(ran.checkpoint), "restore the job", *words)
    assert rows(ran.out / "results") == before
    # With the change put back it goes on where it was.
    ran.write()
    assert_good(ran.run())
    assert last_counts(ran.out / "results") == {"ann": 2 if more else 1, "bob": 1}


@pytest.mark.long
def test_another_pipeline_over_the_checkpoint_of_the_first(ran):
    ran.add("1.json", SECOND)
    sinks = {"results": str(ran.out / "other")}
    ran.write(uid="others", sinks=sinks)
    assert_refused(ran.run(), str(ran.checkpoint), "'others'", "clicks")
    ran.write()
    assert_good(ran.run())
    assert last_counts(ran.out / "results") == {"ann": 2, "bob": 1}


def test_another_source_under_an_old_checkpoint(ran):
    elsewhere = ran.folder / "elsewhere"
    elsewhere.mkdir()
    assert_refused(ran.run("--source", str(elsewhere)), str(elsewhere), "--afresh")


@pytest.mark.long
def test_a_run_file_that_is_gone_is_named(ran):
    ran.add("1.json", SECOND)
    lost = next(iter((ran.checkpoint / "idlestate/clicks/runs").glob("*/*.arrow")))
    kept = lost.read_bytes()
    lost.unlink()
    assert_refused(ran.run(), lost.name, "missing", "restore it")
    lost.write_bytes(kept)
    assert_good(ran.run())
    assert last_counts(ran.out / "results") == {"ann": 2, "bob": 1}


@pytest.mark.long
def test_a_run_file_that_is_damaged_is_named(ran):
    ran.add("1.json", SECOND)
    hurt = next(iter((ran.checkpoint / "idlestate/clicks/runs").glob("*/*.arrow")))
    content = bytearray(hurt.read_bytes())
    content[len(content) // 2] ^= 1
    hurt.write_bytes(content)
    assert_refused(ran.run(), hurt.name, "damaged", "restore it")
