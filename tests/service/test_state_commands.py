"""`idlestate state`: what a checkpoint holds, what is wrong with it, and going back."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from idlestate.service.cli import main
from tests.pipeline.streams import counted
from tests.service.command_line import CommandLine, Said, assert_good, assert_refused, event
from tests.service.rows import last_counts, rows
from tests.spark_versions import CAN_REPARTITION, needs_repartition

pytestmark = pytest.mark.spark

HOURS = [
    [event(f"2025-03-03T{hour}:{minute:02}:00Z", user) for minute in (0, 20) for user in users]
    for hour, users in ((10, "abc"), (11, "abd"), (12, "ae"), (13, "af"))
]

State = Callable[..., Said]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("place")


@pytest.fixture
def line(place: Path) -> CommandLine:
    """All at one path, which checkpoints contain."""
    folder = place / "line"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return CommandLine(folder)


@pytest.fixture
def ran(here: CommandLine, place: Path) -> CommandLine:
    """A pipeline that has read four files in as many batches, and swept: once for all tests."""
    kept = place / "kept"
    if kept.exists():
        shutil.copytree(kept, here.folder, dirs_exist_ok=True)
        return here
    for number, lines in enumerate(HOURS):
        here.add(f"{number}.json", lines)
    here.write()
    assert_good(here.run())
    shutil.copytree(here.folder, kept)
    return here


@pytest.fixture
def state(ran: CommandLine, state_of: State) -> State:
    return state_of


@pytest.fixture
def state_of(here: CommandLine, spark, monkeypatch: pytest.MonkeyPatch) -> State:
    """`idlestate state` of the checkpoint."""
    monkeypatch.setattr(
        "idlestate.service.spark_session.start_spark", lambda partitions, log: spark
    )

    def call(verb: str, *options: str) -> Said:
        done = CliRunner().invoke(main, ["state", verb, str(here.checkpoint), *options])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Said(done.exit_code, done.output)

    return call


def written(ran: CommandLine, batch_id: int) -> list[Path]:
    runs = ran.checkpoint / "idlestate/clicks/runs"
    return sorted(runs.glob(f"*/{batch_id}-*.arrow"))


def test_a_whole_checkpoint_is_listed_measured_and_verified(ran: CommandLine, state: State) -> None:
    listed = state("ls")
    assert_good(listed)
    assert "idlestate/clicks/runs/" in listed.text
    assert "batch 4: " in listed.text

    stats = state("stats").text
    assert "batches kept       0 to 4" in stats
    assert "shards             2 on 2 state partitions" in stats
    assert "live keys          2" in stats  # a, and f of the last hour
    assert "unused files       0" in stats

    stray = written(ran, 1)[0].with_name("1-open-left.arrow")
    stray.write_bytes(b"left by an attempt that was killed")
    verified = state("verify")
    assert_good(verified)
    assert "no damage found" in verified.text
    assert f"{stray.name}: not used by any batch" in verified.text


@pytest.mark.parametrize("hurt", ["lost", pytest.param("damaged", marks=pytest.mark.long)])
def test_damage_is_named_with_the_batch_to_go_back_to(
    ran: CommandLine, state: State, hurt: str
) -> None:
    before = last_counts(ran.out / "results"), ends(ran)
    named = [Path(line.split()[-1]) for line in state("ls").text.splitlines() if "rows" in line]
    newest = max(named, key=lambda path: int(path.name.partition("-")[0]))
    batch, file = int(newest.name.partition("-")[0]), ran.checkpoint / newest
    if hurt == "lost":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-1] + b"?")
    said = state("verify")
    words = "is missing" if hurt == "lost" else "wrong checksum"
    assert_refused(said, file.name, words, "needed by batch", f"--to {batch - 1}")

    back = state("rollback", "--to", str(batch - 1))
    assert_good(back)
    undone = "batch 4 is undone" if batch == 4 else f"batches {batch} to 4 are undone"
    assert undone in back.text
    assert_good(ran.run())
    assert (last_counts(ran.out / "results"), ends(ran)) == before
    assert_good(state("verify"))


@pytest.mark.long
def test_a_batch_that_is_damaged_itself_is_not_gone_back_to(ran: CommandLine, state: State) -> None:
    for file in written(ran, 1):
        file.unlink()
    assert_refused(state("rollback", "--to", "1"), "is missing, and batch 1 needs it")


@pytest.mark.long
def test_going_back_far_reads_much_again_and_counts_it_once(ran: CommandLine, state: State) -> None:
    before = last_counts(ran.out / "results"), ends(ran)
    back = state("rollback", "--to", "0")
    assert_good(back)
    assert all(f"{number}.json" in back.text for number in (1, 2, 3))
    again = ran.run()
    assert_good(again)
    assert again.summary()["rows"] == str(sum(map(len, HOURS)))
    assert (last_counts(ran.out / "results"), ends(ran)) == before


@pytest.mark.long
def test_undone_files_are_read_again_in_the_batches_they_came_in(
    ran: CommandLine, state: State
) -> None:
    """`files_per_batch` holds for them too: in one batch their watermark would be another."""
    before = [counted(rows(ran.out / name)) for name in ("results", "expired")]
    for to in (2, 0):
        assert_good(state("rollback", "--to", str(to)))
        assert_good(ran.run())
        assert [counted(rows(ran.out / name)) for name in ("results", "expired")] == before


@pytest.mark.long
def test_a_batch_whose_later_input_is_gone_is_not_gone_back_to(
    ran: CommandLine, state: State
) -> None:
    """The next run would pass over the file without a word."""
    (ran.events / "2.json").unlink()
    assert_refused(state("rollback", "--to", "0"), "2.json", "is gone; restore it")
    assert_good(state("rollback", "--to", "2"))
    assert_good(ran.run())


def test_what_cannot_be_gone_back_to(ran: CommandLine, state: State) -> None:
    assert_refused(state("rollback", "--to", "4"), "batch 4 is the newest")
    assert_refused(state("rollback", "--to", "9"), "does not retain batch 9", "0, 1, 2, 3, 4")
    for batch in range(5):
        for file in written(ran, batch):
            file.unlink()
    assert_refused(state("verify"), "every retained batch needs one")
    assert_refused(state("verify", "--uid", "other"), "holds no operator 'other'")


@needs_repartition
def test_repartition_is_told_and_cannot_be_rolled_back_over(ran: CommandLine, state: State) -> None:
    said = state("repartition", "--partitions", "1")
    assert_good(said)
    assert "has 1 state partition from batch 5 on" in said.text
    assert_refused(state("rollback", "--to", "3"), "on 2 partitions", "the newest on 1")
    ran.add("4.json", [event("2025-03-03T14:00:00Z", "a")])
    ran.write(state_partitions=None)
    assert_good(ran.run())
    assert last_counts(ran.out / "results")["a"] >= 1
    assert_good(state("verify"))


@pytest.mark.long
def test_runs_elsewhere_are_looked_after_as_well(
    here: CommandLine, state_of: State, tmp_path: Path
) -> None:
    for number, lines in enumerate(HOURS[:2]):
        here.add(f"{number}.json", lines)
    here.write(runs=str(tmp_path / "elsewhere"))
    assert_good(here.run())
    (place,) = (tmp_path / "elsewhere").iterdir()
    assert not list(here.checkpoint.glob("idlestate/clicks/runs"))
    assert str(place) in state_of("ls").text
    assert_good(state_of("stats"))
    assert_good(state_of("rollback", "--to", "0"))
    here.add("last.json", HOURS[2])
    assert_good(here.run())
    if CAN_REPARTITION:
        assert_good(state_of("repartition", "--partitions", "1"))
    here.write(runs=str(tmp_path / "other"), state_partitions=None)
    assert_refused(here.run(), "runs was", "elsewhere, is now", "other")
    assert "no damage found" in state_of("verify").text
    path = max(place.glob("*/*-open-*.arrow"), key=lambda path: int(path.name.partition("-")[0]))
    path.unlink()
    assert_refused(state_of("verify"), f"{path} is missing")
    here.write(runs=str(tmp_path / "other"), source=here.source(files_per_batch=3))
    assert_good(here.run("--afresh"))
    assert not place.exists()
    assert len(list((tmp_path / "other").glob("*/*/*.arrow"))) >= 2


@pytest.mark.parametrize(
    "command", ["ls", "stats", "verify", "rollback --to 1", "repartition --partitions 2"]
)
def test_a_folder_without_a_checkpoint_is_told_at_once(tmp_path: Path, command: str) -> None:
    for place, what in ((tmp_path, "is not a checkpoint"), (tmp_path / "gone", "does not exist")):
        name, *options = command.split()
        done = CliRunner().invoke(main, ["state", name, str(place), *options])
        assert_refused(Said(done.exit_code, done.output), f"{place} {what}")


def ends(ran: CommandLine) -> list[tuple[object, ...]]:
    found = rows(ran.out / "expired")
    return sorted((row["user"], row["created_at"], row["n"]) for row in found)
