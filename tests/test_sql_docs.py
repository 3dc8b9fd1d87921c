"""The examples of docs/sql.md run and do what the page says."""

import json
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner

from idlestate import Policy
from idlestate.config.loading import parse
from idlestate.config.sql.planning import plan_query
from idlestate.service.cli import main
from tests.docs_pages import blocks
from tests.pipeline.conftest import spark, start_in  # noqa: F401 - fixtures

BLOCKS = blocks("docs/sql.md")
PROGRAM, FILE = (
    next(block.text for block in BLOCKS if block.language == language)
    for language in ("python", "yaml")
)
QUERIES = [
    query
    for block in BLOCKS
    if block.language == "sql"
    for query in block.text.split(";\n")
    if query.strip()
]
CLICKS = [
    ("2025-03-03T00:00:00Z", "a", "/home"),
    ("2025-03-03T00:10:00Z", "a", "/cart"),
    ("2025-03-03T03:00:00Z", "b", "/home"),
]
EXPIRED = [("a", 2, "/cart")]


def test_blocks_are_those_that_are_tested() -> None:
    assert [block.language for block in BLOCKS] == ["python", "yaml", "yaml", "sql", "sql"]


def test_the_file_with_a_join_is_right() -> None:
    config = parse(BLOCKS[2].text.encode())
    assert config.queries["matched-orders"].operator == "join"
    assert config.right_policy_for("matched-orders") == Policy(ttl="1h")
    assert config.warnings == ()


@pytest.mark.parametrize("query", QUERIES)
def test_queries_are_supported(query: str) -> None:
    assert plan_query(query).operator in {*("retain", "deduplicate", "join", "join_asof", "over")}


def expired(folder: Path) -> list[tuple[object, ...]]:
    rows = ds.dataset(list(folder.rglob("*.parquet"))).to_table().to_pylist()
    names = ("session_id", "clicks", "last_page")
    return [tuple(row[name] for name in names) for row in rows if row["change"] == "expire"]


@pytest.mark.spark
def test_program_and_file_give_the_same(tmp_path, start_in):  # noqa: F811 - the fixture
    (tmp_path / "clicks").mkdir()
    rows = (dict(zip(("event_time", "session_id", "page"), each, strict=True)) for each in CLICKS)
    (tmp_path / "clicks" / "clicks.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "clicks.yaml").write_text(f"{FILE}    metrics: {{port: 0}}\n")
    start_in(tmp_path)
    exec(PROGRAM, {"__name__": "__main__"})
    assert expired(tmp_path / "changes") == EXPIRED
    done = CliRunner().invoke(main, ["run", "clicks.yaml"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert expired(tmp_path / "out" / "expired") == EXPIRED
