"""Files of runs in an object store: fetched in part, kept here, found when lost or damaged."""

import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from idlestate.backends.checkpoint.operator_layout import read_layout
from idlestate.backends.checkpoint.runs_folder import remove_runs, runs_of, runs_place
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.local_cache import PLACE_VARIABLE, local_cache
from idlestate.backends.files.record_copies import newest_copy, remove_copies
from idlestate.backends.files.run_files import RunFiles
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.errors import DamagedStateError, RefusedError, StoreError
from idlestate.pipeline.operator_spec import OperatorSpec
from idlestate.pipeline.query_start import prepare_checkpoint
from tests.backends.test_shard_batch import POLICY, SPEC, packet, rows, step
from tests.s3_server import ENVIRONMENT, S3Server, serve_s3

USERS = [f"user {at}" for at in range(60_000)]
_starts = count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        with serve_s3(tmp_path_factory.mktemp("s3") / "log") as s3:
            yield s3


@pytest.fixture
def s3(server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """The server, and a cache of this test's own."""
    monkeypatch.setenv(PLACE_VARIABLE, str(tmp_path / "cache"))
    local_cache.cache_clear()
    yield server
    server.road.open()
    local_cache.cache_clear()


def started(s3: S3Server, name: str) -> RunFiles:
    """The files of a shard after a start of the query, in a process that saw nothing of them."""
    return RunFiles(Folder(s3.url(name)), 3, f"start {next(_starts)}")


@pytest.fixture
def loaded(s3: S3Server) -> tuple[str, ShardRecord]:
    """A folder in the bucket, and the state that many keys left in it."""
    name = f"folder-{next(_starts)}"
    times = np.full(len(USERS), 5)
    return name, step(ShardRecord("clicks", 3), started(s3, name), [packet(USERS, times)], 0).record


def few(state: ShardRecord, files: RunFiles | None) -> list[tuple[str, str, int]]:
    return rows(step(state, files, [packet(["user 7", "user 31000", "new"], [6, 6, 6])], 1))


EXPECTED = [("new", "update", 1), ("user 31000", "update", 2), ("user 7", "update", 2)]


def test_a_record_is_copied_next_to_its_runs(loaded: tuple[str, ShardRecord], s3: S3Server) -> None:
    name, state = loaded
    saved = ShardRecord.decode(started(s3, name).save(state, 7))
    runs = Folder(s3.url(name)).below("3")
    assert newest_copy(runs, 6) is None
    assert newest_copy(runs, 7) == saved
    remove_copies(Folder(s3.url(name)), [3], after=6)
    assert newest_copy(runs, 7) is None
    assert sorted(few(state, started(s3, name))) == EXPECTED


def drop_cache(tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "cache")


def test_the_batch_after_finds_what_was_written_on_this_machine(
    s3: S3Server, loaded: tuple[str, ShardRecord]
) -> None:
    name, state = loaded
    (ref,) = state.runs
    assert s3.objects(name) == [f"{name}/3/{ref.name}"]
    s3.road.came_back = 0
    state = step(state, started(s3, name), [packet(["user 7"], [6])], 1).record
    assert s3.road.came_back < 10_000
    assert len(s3.objects(name)) == len(state.runs) == 2


def test_after_the_cache_is_gone_only_what_is_touched_is_fetched(
    s3: S3Server, loaded: tuple[str, ShardRecord], tmp_path: Path
) -> None:
    name, state = loaded
    drop_cache(tmp_path)
    s3.road.came_back = 0
    files = started(s3, name)
    assert sorted(few(state, files)) == EXPECTED
    (ref,) = state.runs
    assert ref.bytes > 3_000_000
    assert s3.road.came_back < 0.4 * ref.bytes
    # Also while it is in use, and again.
    drop_cache(tmp_path)
    assert sorted(few(state, files)) == EXPECTED
    everything = step(state, files, [packet(USERS, np.full(len(USERS), 7))], 1)
    assert {n for _, _, n in rows(everything)} == {2}


def test_a_damaged_entry_of_the_cache_is_fetched_again(
    s3: S3Server, loaded: tuple[str, ShardRecord], tmp_path: Path
) -> None:
    name, state = loaded
    (entry,) = (tmp_path / "cache").glob("*/*.arrow")
    entry.write_bytes(bytes(entry.stat().st_size))
    assert sorted(few(state, started(s3, name))) == EXPECTED
    entry.write_bytes(b"short")
    assert sorted(few(state, started(s3, name))) == EXPECTED


@pytest.mark.parametrize("hurt", ["lost", "cut", "damaged"])
def test_a_hurt_object_is_named(
    s3: S3Server, loaded: tuple[str, ShardRecord], tmp_path: Path, hurt: str
) -> None:
    name, state = loaded
    (path,) = s3.objects(name)
    data = s3.read(path)
    if hurt == "lost":
        s3.remove(path)
    else:
        s3.write(
            path, data[:-9] if hurt == "cut" else bytes(len(data) // 2) + data[-(len(data) // 2) :]
        )
    drop_cache(tmp_path)
    words = f"{path} is {'missing' if hurt == 'lost' else 'damaged'}.*state verify"
    with pytest.raises(DamagedStateError, match=words):
        few(state, started(s3, name))
    s3.write(path, data)
    assert sorted(few(state, started(s3, name))) == EXPECTED


def test_what_nothing_names_goes_there_and_here(
    s3: S3Server, loaded: tuple[str, ShardRecord], tmp_path: Path
) -> None:
    name, first = loaded
    files = started(s3, name)
    everything = packet(USERS, np.full(len(USERS), 7))
    state = step(first, files, [everything], 1).record
    lost = step(first, files, [everything], 1).record  # an attempt that nothing came of
    assert len(s3.objects(name)) == 3
    files.remove_unwanted(state, 9, 1, orphans=True)
    (ref,) = state.runs
    assert ref not in lost.runs
    assert s3.objects(name) == [f"{name}/3/{ref.name}"]
    assert [path.name for path in (tmp_path / "cache").glob("*/*")] == [ref.name]


# ------------------------------------------------------------------ which checkpoint has which runs


def operator(runs: str | None) -> OperatorSpec:
    return OperatorSpec(
        uid="clicks", table=SPEC, policy=POLICY.policy, inputs=(), read_when=None, delay_ms=0,
        max_ahead_ms=0, rejects=False, has_time=True, shards=2, runs=runs, token="t",
    )  # fmt: skip


def prepare(checkpoint: Folder, runs: str | None) -> Folder:
    """Start a query; where its runs are."""
    prepare_checkpoint(checkpoint, operator(runs), partitions=2, retain_batches=2, now_ms=1)
    return runs_of(checkpoint, "clicks", read_layout(checkpoint, "clicks"))


def test_checkpoints_with_one_url_have_folders_of_their_own(s3: S3Server, tmp_path: Path) -> None:
    one, two = (Folder(str(tmp_path / name)) for name in ("one", "two"))
    url = s3.url("shared")
    places = [prepare(one, url), prepare(two, url)]
    assert prepare(one, url).shown("") == places[0].shown("")
    for place in places:
        place.write("0/0-open-x.arrow", b"data")
    assert len(s3.objects("shared")) == 4
    remove_runs(one)
    remove_runs(one)
    assert places[0].names("") == []
    assert places[1].names("0") == ["0-open-x.arrow"]
    with pytest.raises(RefusedError, match=r"the folder is gone, or .* now is another place"):
        prepare(one, url)


def test_another_place_than_at_the_first_start_is_refused(s3: S3Server, tmp_path: Path) -> None:
    one, two = (Folder(str(tmp_path / name)) for name in ("one", "two"))
    prepare(one, s3.url("place"))
    prepare(two, None)
    with pytest.raises(RefusedError, match=r"runs was s3://.*/place.*, is now s3://.*/other"):
        prepare(one, s3.url("other"))
    with pytest.raises(RefusedError, match=r"runs was s3://.*/place.*, is now none"):
        prepare(one, None)
    with pytest.raises(RefusedError, match="runs was none, is now s3://"):
        prepare(two, s3.url("place"))


def test_a_moved_checkpoint_keeps_its_runs_and_a_copy_may_not_have_them(tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")
    place = prepare(Folder(str(tmp_path / "one")), runs)
    assert json.loads(place.read("idlestate.json"))["checkpoint"] == str(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    with pytest.raises(RefusedError, match=r"one, of which .*copy is a copy"):
        prepare(Folder(str(tmp_path / "copy")), runs)
    shutil.rmtree(tmp_path / "one")
    assert prepare(Folder(str(tmp_path / "copy")), runs).shown("") == place.shown("")
    assert json.loads(place.read("idlestate.json"))["checkpoint"] == str(tmp_path / "copy")


@pytest.mark.long
def test_a_store_that_is_away_is_named_nothing_is_lost_and_nothing_begun(
    s3: S3Server, loaded: tuple[str, ShardRecord], tmp_path: Path
) -> None:
    name, state = loaded
    drop_cache(tmp_path)
    files = started(s3, name)
    assert sorted(few(state, files)) == EXPECTED
    checkpoint = Folder(str(tmp_path / "one"))
    s3.road.shut()
    with ThreadPoolExecutor(1) as pool:  # both try for six seconds
        first_start = pool.submit(prepare, checkpoint, s3.url("away"))
        said = f"{name}/3 cannot be reached: .*endpoint_override.*nothing is lost"
        with pytest.raises(StoreError, match=said):  # what is to be written has nowhere to go
            few(state, files)
        with pytest.raises(StoreError, match="cannot be reached"):
            first_start.result()
    s3.road.open()
    assert sorted(few(state, files)) == EXPECTED
    named = {f"{name}/3/{ref.name}" for ref in state.runs}
    files.remove_unwanted(state, 2, 1, orphans=True)
    assert set(s3.objects(name)) == named
    assert not checkpoint.exists("idlestate/clicks/layout.json")
    prepare(checkpoint, s3.url("away"))


def test_a_bucket_that_is_not_there_is_named(s3: S3Server, tmp_path: Path) -> None:
    url = s3.url("x").replace("//idlestate-tests/", "//no-such-bucket/")
    with pytest.raises(StoreError, match="bucket"):
        prepare(Folder(str(tmp_path / "one")), url)


def test_a_place_is_remembered_in_full() -> None:
    for url in ("s3://b/x", "s3://b/x?scheme=http", "file:///x", "file:/x", "/x"):
        assert runs_place("clicks", url) == url
    assert runs_place("clicks", "s3://b/x/") == "s3://b/x"
    assert runs_place("clicks", "out/runs") == str(Path("out/runs").absolute())


def test_a_bad_url_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=r"ftp://here is not a place .*s3://"):
        prepare(Folder(str(tmp_path)), "ftp://here")


def test_secrets_in_a_url_are_never_told() -> None:
    for url in ("s3://me:geh/eim@b/x?scheme=http", "abfs://me:geheim@h/x?client_secret=geheim"):
        with pytest.raises(RefusedError) as refused:
            Folder(url.replace("s3:", "s4:"))
        assert "geh" not in str(refused.value)
        assert "***" in str(refused.value)
