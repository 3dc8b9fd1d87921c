"""The examples of docs/windows.md run and do what the page says."""

import json
from datetime import UTC, datetime, timedelta

import pyarrow.dataset as ds
import pytest

from idlestate import hopping, tumbling
from idlestate.config.loading import parse
from tests.docs_pages import blocks
from tests.pipeline.conftest import spark, start_in  # noqa: F401 - fixtures

JOB, PICTURE, EARLY, FILE = blocks("docs/windows.md")
VIEWS = [
    ("2025-03-03T10:00:00Z", "a"),
    ("2025-03-03T10:09:59.999Z", "a"),
    ("2025-03-03T10:10:00Z", "a"),
    ("2025-03-03T10:22:00Z", "b"),
]


@pytest.mark.spark
def test_the_job_counts_views_by_window(tmp_path, start_in):  # noqa: F811 - the fixture
    (tmp_path / "views").mkdir()
    rows = (dict(zip(("event_time", "page"), each, strict=True)) for each in VIEWS)
    (tmp_path / "views" / "views.jsonl").write_text("\n".join(map(json.dumps, rows)))
    start_in(tmp_path)
    exec(JOB.text, {"__name__": "__main__"})
    found = ds.dataset(list((tmp_path / "windows").glob("*.parquet"))).to_table().to_pylist()
    spans = [(row["window_start"].minute, row["window_end"].minute) for row in found]
    pages = [row["page"] for row in found]
    assert sorted(zip(pages, spans, (row["views"] for row in found), strict=True)) == [
        ("a", (0, 10), 2),
        ("a", (10, 20), 1),
    ]


def test_early_results_come_fire_after_past_the_end():
    names = {"tumbling": tumbling}
    exec(EARLY.text, names)
    start = datetime(2025, 3, 3, 10, tzinfo=UTC)

    def views(*minutes):
        rows = [{"page": "a", "event_time": start + timedelta(minutes=at)} for at in minutes]
        found = names["job"].batch(rows)
        return [(row["window_start"].minute, row["views"]) for row in found]

    assert views(1, 2) == []
    assert views(15.1) == []
    assert views(15.2) == [(0, 2)]
    assert views(16) == []
    assert views(3) == [(0, 3)]


def test_the_file_names_its_window():
    pipeline = parse(FILE.text.encode(), "views.yaml").pipelines["views-by-page"]
    assert pipeline.window == hopping("10m", "1m")
    assert pipeline.fire_after_ms == 300_000
    assert pipeline.delay_ms == 3_600_000
