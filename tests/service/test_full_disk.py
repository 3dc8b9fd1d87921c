"""A disk that is full: a plain message, and the same command goes on when there is space again."""

from pathlib import Path

import pytest

from tests.service.command_line import CommandLine, assert_good, assert_refused, event
from tests.service.rows import rows
from tests.small_disk import disk, leave_room  # noqa: F401 - the fixture

pytestmark = pytest.mark.spark

HOURS = range(4)
MOST_LINES = 12
"""Of a run that fails: where it logs and is measured, its batches, and what went wrong."""


def day(line: CommandLine) -> None:
    """Every hour the users of that hour, and one who always comes."""
    for hour in HOURS:
        users = [*(f"user-{hour}-{n}" for n in range(20)), "always"]
        time = f"2025-03-03T{10 + hour}:%02d:00Z"
        line.add(f"{hour}.json", [event(time % n, user) for n, user in enumerate(users)])


def outcome(line: CommandLine) -> dict[object, tuple[str, int, object]]:
    """The last row of each life; not its batch, as two that would have followed one another may
    have become one where the disk was full between them."""
    found = {}
    for folder in ("results", "expired"):
        for row in rows(line.out / folder):
            life = row["user"], row["created_at"]
            found[life] = (row["change"], row["n"], row["expired_at"])
    return found


@pytest.mark.parametrize(
    ("what", "room_kb"),
    [
        ("checkpoint", (0, 100)),
        pytest.param("checkpoint", (0, 40, 120, 400), marks=pytest.mark.long),
        pytest.param("sinks", (0, 40, 120, 400), marks=pytest.mark.long),
    ],
)
def test_a_full_disk_loses_nothing(
    here: CommandLine,
    disk: Path,  # noqa: F811
    what: str,
    room_kb: tuple[int, ...],
):
    """However much free space a try has: each gets a little further than the one before."""
    day(here)
    here.write()
    assert_good(here.run())
    expected = outcome(here)

    checkpoint = (disk if what == "checkpoint" else here.folder) / "again" / "checkpoint"
    here.out = (disk if what == "sinks" else here.folder) / "sinks"
    sinks = {name: str(here.out / name) for name in ("results", "expired", "rejects")}
    here.write(checkpoint=str(checkpoint), sinks=sinks)
    refused = 0
    for kilobytes in room_kb:
        ballast = leave_room(disk, kilobytes)
        said = here.run()
        if said.code == 0:
            break
        refused += 1
        assert_refused(said, "the disk is full: free some space and run the same command again")
    assert refused >= 2
    ballast.unlink()
    assert_good(here.run())
    assert outcome(here) == expected


@pytest.mark.long
@pytest.mark.parametrize("kilobytes", [0, 200])
def test_a_full_disk_is_told_in_a_line(line: CommandLine, disk: Path, kilobytes: int):  # noqa: F811
    """Though Spark's log is on that disk too, and the link to the JVM has much to say."""
    day(line)
    line.write(checkpoint=str(disk / "checkpoint"))
    leave_room(disk, kilobytes)
    said = line.run_apart()
    assert_refused(said, "the disk is full: free some space")
    assert "Logging error" not in said.text
    assert len(said.text.splitlines()) < MOST_LINES, said.text
