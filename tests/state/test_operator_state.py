"""Operator state: dealt out anew, given to all, or the same for all."""

import json
import os

import pyarrow as pa
import pytest

from idlestate.state.backend_factory import open_backend
from idlestate.state.errors import (
    DamagedFileError,
    KeyGroupError,
    NullValueError,
    SnapshotError,
    StateArgumentError,
    StateKindError,
    StateMigrationError,
    StateTypeError,
)
from idlestate.state.operator_state import OperatorStateStore

LONG = pa.int64()


def filled(tmp_path, parallelism):
    """Snapshots of some instances, each with ten numbers of its own."""
    folders = []
    for index in range(parallelism):
        store = OperatorStateStore()
        mine = range(10 * index, 10 * index + 10)
        store.get_list_state("split", LONG).add_all(mine)
        store.get_union_list_state("union", LONG).update(mine)
        rules = store.get_broadcast_state("rules", pa.string(), LONG)
        rules.put_all({"a": 1, "b": 2})
        rules.remove("b")
        folders.append(tmp_path / f"instance-{index}")
        store.snapshot(folders[-1])
    return folders


@pytest.mark.parametrize("before", [1, 2, 3])
@pytest.mark.parametrize("after", [1, 2, 3, 5])
def test_another_number_of_instances(tmp_path, before, after):
    folders = filled(tmp_path, before)
    dealt = []
    for index in range(after):
        store = OperatorStateStore(folders, index=index, parallelism=after)
        dealt.append(store.get_list_state("split", LONG).get())
        assert store.get_union_list_state("union", LONG).get() == list(range(10 * before))
        rules = store.get_broadcast_state("rules", pa.string(), LONG)
        assert list(rules.entries()) == [("a", 1)]
        assert rules.contains("a")
        assert rules.get("b") is None
    assert sorted(number for each in dealt for number in each) == list(range(10 * before))
    assert max(map(len, dealt)) - min(map(len, dealt)) <= (0 if before == after else 1)


def test_a_snapshot_that_fills_the_disk_leaves_nothing(tmp_path, monkeypatch):
    def full_disk(file):
        raise OSError(28, "No space left on device")

    (folder,) = filled(tmp_path, 1)
    store = OperatorStateStore([folder])
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full_disk)
        with pytest.raises(SnapshotError, match=r"No space left on device; .* free disk space"):
            store.snapshot(tmp_path / "again")
    assert list(tmp_path.iterdir()) == [folder]
    store.snapshot(tmp_path / "again")


def test_what_nobody_asked_for_is_kept(tmp_path):
    first = filled(tmp_path, 1)
    OperatorStateStore(first).snapshot(tmp_path / "again")
    store = OperatorStateStore([tmp_path / "again"])
    assert store.get_list_state("split", LONG).get() == list(range(10))


def test_another_mode_or_type_is_refused(tmp_path):
    store = OperatorStateStore(filled(tmp_path, 1))
    with pytest.raises(StateKindError, match="split is stored as SPLIT, declared as UNION"):
        store.get_union_list_state("split", LONG)
    with pytest.raises(StateMigrationError, match="split: stored as int64, declared as string"):
        store.get_list_state("split", pa.string())
    with pytest.raises(NullValueError):
        store.get_list_state("split", LONG).add(None)


def test_what_a_snapshot_could_not_write_is_refused_at_once(tmp_path):
    store = OperatorStateStore(filled(tmp_path, 1))
    numbers = store.get_list_state("split", LONG)
    rules = store.get_broadcast_state("rules", pa.string(), LONG)
    for call in (
        lambda: numbers.add("x"),
        lambda: numbers.update([1, "x"]),
        lambda: rules.put("a", "x"),
        lambda: rules.put_all({"a": 2, 5: 1}),
    ):
        with pytest.raises(StateTypeError, match=r"operator state (split|rules): "):
            call()
    assert numbers.get() == list(range(10))
    assert list(rules.entries()) == [("a", 1)]
    store.snapshot(tmp_path / "again")


def test_what_is_stored_is_what_a_restore_has(tmp_path):
    store = OperatorStateStore()
    lists = store.get_list_state("lists", pa.list_(LONG))
    rates = store.get_broadcast_state("rates", pa.float32(), LONG)
    given = [1]
    lists.add_all([given, iter([2, 3])])
    given.append("x")
    rates.put(0.1, 1)
    store.snapshot(tmp_path / "snapshot")
    again = OperatorStateStore([tmp_path / "snapshot"])
    for each in (store, again):
        assert each.get_list_state("lists", pa.list_(LONG)).get() == [[1], [2, 3]]
    restored = again.get_broadcast_state("rates", pa.float32(), LONG)
    assert list(rates.entries()) == list(restored.entries())


def test_an_instance_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(KeyGroupError, match="there is no instance 3 of 2"):
        OperatorStateStore(filled(tmp_path, 1), index=3, parallelism=2)


def test_snapshots_of_keyed_state_and_lost_rows_are_refused(tmp_path):
    with open_backend("heap") as backend:
        backend.snapshot(tmp_path / "keyed").finish()
    with pytest.raises(StateArgumentError, match=r"keyed state: pass it to open_backend"):
        OperatorStateStore([tmp_path / "keyed"])
    (folder,) = filled(tmp_path, 1)
    with pytest.raises(StateArgumentError, match="operator state: pass it to OperatorStateStore"):
        open_backend("heap", restore=[folder])
    (folder / "operator.rows").unlink()
    with pytest.raises(DamagedFileError, match=r"operator\.rows'; restore another snapshot"):
        OperatorStateStore([folder])


def test_a_version_that_is_not_known_is_refused(tmp_path):
    (folder,) = filled(tmp_path, 1)
    record = json.loads((folder / "snapshot.json").read_text())
    (folder / "snapshot.json").write_text(json.dumps(record | {"format": 99}))
    with pytest.raises(StateArgumentError, match="'format': 99"):
        OperatorStateStore([folder])
    with pytest.raises(StateArgumentError, match="is not a valid snapshot of operator state"):
        OperatorStateStore([tmp_path])
