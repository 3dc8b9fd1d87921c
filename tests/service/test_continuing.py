"""One run after another over the same checkpoint; what is served and printed is what is kept."""

import pytest

from idlestate.backends.files.folder import Folder
from idlestate.backends.files.spark_logs import committed_batch
from idlestate.config.loading import load_config
from idlestate.metrics import families, scrape_cache
from idlestate.pipeline.checkpoint.state_store_shards import read_shards
from idlestate.pipeline.read_state import read_state
from idlestate.pipeline.session_metrics import SessionMetrics
from idlestate.service.job import Job
from tests.service.command_line import CommandLine, assert_good, event
from tests.service.rows import last_counts, rows
from tests.service.scrape import scrape

pytestmark = pytest.mark.spark

MORNING = [event("2025-03-03T10:00:00Z", "ann"), event("2025-03-03T10:01:00Z", "bob"), "{"]
NOON = [event("2025-03-03T12:00:00Z", "ann"), event("2025-03-03T12:01:00Z", "cid")]
EVENING = [
    event("2025-03-03T18:00:00Z", "ann"),
    event("2025-03-03T18:20:00Z", "dot"),
    event("2025-03-03T12:02:00Z", "eve"),  # not late: the batch before it ended at noon
]
NIGHT = [
    event("2025-03-03T18:22:00Z", "dot"),
    event("2025-03-03T12:02:00Z", "fay"),
]  # the 2nd: late
WHOLE_LIFE = (
    "keys ever seen",
    "live now",
    "peak",
    "expired",
    "returning keys",
    "rows",
    "rejected rows",
)


def figures(said) -> dict[str, str]:
    """What the summary says of the query's whole life."""
    summary = said.summary()
    return {name: summary[name] for name in WHOLE_LIFE}


def test_a_run_goes_on_where_the_last_one_ended(here: CommandLine):
    here.add("0.json", MORNING)
    here.add("1.json", NOON)
    here.write()
    first = here.run()
    assert_good(first)
    assert figures(first)["rows"] == "5"
    assert figures(first)["returning keys"].startswith("1 ")
    assert figures(first)["expired"] == "2 lives (2 idle)"
    before = rows(here.out / "results"), rows(here.out / "expired")

    nothing_new = here.run()
    assert_good(nothing_new)
    assert figures(nothing_new) == figures(first)
    assert nothing_new.summary()["this run"].startswith("0 rows")
    assert (rows(here.out / "results"), rows(here.out / "expired")) == before

    here.add("2.json", EVENING)
    here.add("3.json", NIGHT)
    more = here.run()
    assert_good(more)
    assert figures(more)["rows"] == "10"
    assert figures(more)["returning keys"].startswith("2 ")
    assert figures(more)["rejected rows"] == "1 (1 malformed)"
    assert more.summary()["late rows"] == "1"
    assert more.summary()["this run"].startswith("5 rows")
    assert last_counts(here.out / "results")["dot"] == 2


@pytest.mark.parametrize("modified_s", [0, pytest.param(1_600_000_000, marks=pytest.mark.long)])
def test_a_file_much_older_than_those_already_read_is_read(here: CommandLine, modified_s: int):
    """`cp -p` and `rsync -t` keep times; Spark's default silently skips what is a week older."""
    here.add("0.json", MORNING, modified_s=1_700_000_000)
    here.write()
    assert_good(here.run())
    here.add("1.json", NOON, modified_s=modified_s)
    more = here.run()
    assert_good(more)
    assert more.summary()["this run"].startswith("2 rows")


@pytest.mark.long
def test_afresh_begins_again(here: CommandLine):
    here.add("0.json", MORNING)
    here.write()
    first = here.run()
    again = here.run("--afresh")
    assert_good(again)
    assert figures(again) == figures(first)
    assert again.summary()["this run"].startswith("3 rows")


def test_a_run_counts_what_it_did_although_no_progress_arrives(
    here: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.add("0.json", MORNING)
    here.write()
    put = SessionMetrics._put

    def put_all_but_progress(metrics: SessionMetrics, kind: str, text: str) -> None:
        if kind != "progress":
            put(metrics, kind, text)

    monkeypatch.setattr(SessionMetrics, "_put", put_all_but_progress)
    said = here.run()
    assert_good(said)
    assert said.summary()["this run"].startswith("3 rows")
    assert said.summary()["peak"] == "2 keys"
    assert figures(said)["rows"] == "3"


def test_what_is_served_is_what_is_kept(here: CommandLine, spark, monkeypatch):
    for number, lines in enumerate((MORNING, NOON, EVENING, NIGHT)):
        here.add(f"{number}.json", lines)
    monkeypatch.setattr(scrape_cache, "CACHE_S", 0.0)
    job = Job(load_config(here.write()), "clicks")
    urls: list[str] = []
    scrapes: list[dict[str, float]] = []
    job.run(urls.append, lambda batch: scrapes.append(scrape(urls[0])))
    assert len(scrapes) == 5  # four files and the final sweep
    served = scrapes[-1]

    checkpoint = str(here.checkpoint)
    shards = read_shards(spark, checkpoint, "clicks", committed_batch(Folder(checkpoint)))
    live = read_state(spark, checkpoint, "clicks").count()
    assert live > 0
    assert served[families.LIVE_KEYS.name] == live
    assert served[families.STATE_BYTES.name] == sum(one.current.bytes for one in shards)
    assert served[families.KEYS_CREATED.name] == sum(one.tally.created for one in shards) > 0
    assert (
        served[families.RETURNING_KEYS.name] == sum(one.tally.returning_keys for one in shards) > 0
    )
    assert served[families.INPUT_ROWS.name] == sum(one.rows.input for one in shards) == 10
    assert served[families.LATE_ROWS.name] == sum(one.rows.late for one in shards) == 1
    assert served[families.WATERMARK.name] * 1000 == max(one.time_ms for one in shards) > 0
    for at, reason in enumerate(("lifetime", "ttl", "idle")):
        kept = sum(one.tally.expired[at] for one in shards)
        assert served[f"{families.KEYS_EXPIRED.name} {reason}"] == kept
    assert served[f"{families.KEYS_EXPIRED.name} idle"] == len(rows(here.out / "expired")) > 0
    for reason in families.REJECT_REASONS:
        kept = sum(getattr(one.rows, reason) for one in shards)
        assert served[f"{families.REJECTED_ROWS.name} {reason}"] == kept
    assert served[f"{families.REJECTED_ROWS.name} malformed"] == 1
    assert served[f"{families.BATCH_DURATION.name}_count"] == 5
    grown = [each[families.INPUT_ROWS.name] for each in scrapes]
    assert grown == sorted(grown)
    assert all(rows >= least for rows, least in zip(grown, [3, 5, 8, 10, 10], strict=True))
