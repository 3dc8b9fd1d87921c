"""A pipeline of `kind: deduplicate`: one record of each life, to the sink that its `keep` says."""

import pytest

from tests.service.command_line import CommandLine, assert_good, event
from tests.service.rows import rows

pytestmark = pytest.mark.spark

MORNING = [
    event("2025-03-03T10:00:00Z", "ann", 1),
    event("2025-03-03T10:01:00Z", "ann", 2),
    event("2025-03-03T10:02:00Z", "bob", 3),
    "{",
]
NOON = [event("2025-03-03T10:20:00Z", "ann", 4), event("2025-03-03T12:00:00Z", "ann", 5)]


def records(found) -> list[tuple[str, int | None]]:
    return sorted((row["user"], row["amount"]) for row in found)


@pytest.mark.long
def test_the_first_record_of_each_life_over_two_runs(here: CommandLine):
    here.add("0.json", MORNING)
    here.write(kind="deduplicate", aggregates=None)
    assert_good(here.run())
    here.add("1.json", NOON)
    said = here.run()
    assert_good(said)
    assert records(rows(here.out / "results")) == [("ann", 1), ("ann", 5), ("bob", 3)]
    assert records(rows(here.out / "expired")) == [("ann", None), ("bob", None)]
    assert [row["reason"] for row in rows(here.out / "rejects")] == ["malformed"]
    assert said.summary()["expired"] == "2 lives (2 idle)"


@pytest.mark.long
def test_the_last_record_of_each_life(here: CommandLine):
    here.add("0.json", MORNING)
    here.add("1.json", NOON)
    here.write(kind="deduplicate", keep="last", aggregates=None)
    assert_good(here.run())
    assert records(rows(here.out / "expired")) == [("ann", 4), ("bob", 3)]
