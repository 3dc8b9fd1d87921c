"""Borders between calls happen, of every kind, and what a test holds goes on behind them."""

import pyarrow as pa
import pytest

from idlestate.retention.policy import TimeDomain
from idlestate.retention.ttl_config import StateTtlConfig
from idlestate.state.backend_factory import open_backend
from idlestate.state.descriptors import MapStateDescriptor, ValueStateDescriptor
from tests.state.batch_borders import KINDS, BatchBorders

NUMBERS = pa.int64()
COUNT = 8


def use(backend):
    """Calls of every sort, on what is held over all borders."""
    ttl = StateTtlConfig(ttl_ms=1000, time=TimeDomain.EVENT)
    backend.watermark.advance(5)
    value = backend.get_state(ValueStateDescriptor(name="v", value_type=NUMBERS, ttl=ttl))
    entries = backend.get_state(
        MapStateDescriptor(name="m", key_type=pa.string(), value_type=NUMBERS)
    )
    fired = []
    timers = backend.timer_service("t", fired.append, fired.append)
    entries.set_current_namespace("w")
    for number in range(COUNT):
        backend.set_current_key(f"key {number}")
        value.update(number)
        entries.put("x", number)
        timers.register_event_time_timer(None, number)
    for number in range(0, COUNT, 2):
        backend.set_current_key(f"key {number}")
        assert (value.value(), entries.get("x")) == (number, number)
        value.clear()
        entries.remove("x")
        timers.delete_event_time_timer(None, number)
    assert (backend.size("v"), backend.size("m")) == (COUNT // 2, COUNT // 2)
    assert list(entries.entries()) == []
    assert timers.advance_watermark(100) == COUNT // 2
    assert [timer.timestamp_ms for timer in fired] == list(range(1, COUNT, 2))


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_test_holds_goes_on_behind_borders_of_every_kind(kind, tmp_path, monkeypatch):
    borders = BatchBorders(kind, often=20, kinds={kind: 1})
    borders.set_between_calls(monkeypatch)
    with open_backend("runs", tmp_path / "db") as backend:
        use(backend)
    assert borders.done[kind] > COUNT


def test_a_test_gets_all_kinds(tmp_path, monkeypatch):
    borders = BatchBorders("any", often=20)
    borders.set_between_calls(monkeypatch)
    with open_backend("runs", tmp_path / "db") as backend:
        use(backend)
    assert set(borders.done) == set(KINDS)


def test_a_held_snapshot_and_a_walk_are_not_ended(tmp_path, monkeypatch):
    borders = BatchBorders("held", often=0)
    borders.set_between_calls(monkeypatch)
    with open_backend("runs", tmp_path / "db") as backend:
        state = backend.get_state(ValueStateDescriptor(name="v", value_type=NUMBERS))
        state.put_many(["a", "b"], [1, 2])
        held = backend.snapshot(tmp_path / "snapshot")
        for kind in KINDS:
            borders.border(backend, kind)
        held.finish()
        walk = backend.keys("v")
        for kind in KINDS:
            borders.border(backend, kind)
        assert borders.done == {"commit": 6, "merge": 2}
        assert sorted(walk) == ["a", "b"]
        borders.border(backend, "reopen")
        assert borders.done["reopen"] == 1
        assert state.get_many(["a", "b"]).to_pylist() == [1, 2]
