"""Timers in arrays fire as timers that are objects do, and as those in RocksDB."""

import random

import pyarrow as pa
import pytest

from idlestate.retention.policy import TimeDomain
from idlestate.state.backend_factory import open_backend
from idlestate.state.heap import heap_timers
from idlestate.state.row_keys import KeyLayout
from idlestate.state.runs import runs_timers
from idlestate.state.timer_rows import TimerLayout, by_group_many, by_time_many, times_of
from idlestate.timers.heap_queue import HeapTimerQueue
from idlestate.timers.timer import Timer, by_time


@pytest.fixture(params=["heap", "rocksdb", "runs"])
def queues(request, tmp_path, monkeypatch):
    """The queue of a backend, which moves timers on early, and a plain one beside it."""
    for limit in ("FRONT", "CHUNK", "SPARE"):
        monkeypatch.setattr(heap_timers, limit, 8)
    monkeypatch.setattr(runs_timers, "AHEAD", 8)
    place = None if request.param == "heap" else tmp_path / "db"
    with open_backend(request.param, place, max_parallelism=4) as backend:
        yield backend._queue("timers"), HeapTimerQueue(backend._timer_layout)


def some(chance, count):
    return [
        Timer(chance.randrange(-20, 100), f"key {chance.randrange(3)}", chance.choice([None, "n"]))
        for _ in range(count)
    ]


def agree(queue, said, is_so):
    """Whether a queue is right; one on runs need not know, and then says yes."""
    return said == is_so or (said and isinstance(queue, runs_timers.RunsTimerQueue))


@pytest.mark.parametrize(
    "seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.long) for seed in (3, 4, 5))]
)
def test_timers_fire_in_the_order_of_a_plain_queue(queues, seed):
    chance, (queue, plain) = random.Random(seed), queues
    layout = plain._codec
    for _ in range(600):
        match chance.randrange(7):
            case 0 | 1:
                (timer,) = some(chance, 1)
                assert agree(queue, queue.add(timer), plain.add(timer))
            case 2:
                timers = some(chance, chance.choice([0, 1, 20]))
                rows = pa.array([layout.encode(each) for each in timers], pa.binary())
                assert queue.add_rows(rows) == plain.add_rows(rows)
            case 3:
                (timer,) = some(chance, 1)
                assert agree(queue, queue.remove(timer), plain.remove(timer))
            case 4:
                until = chance.randrange(-20, 100)
                taken = plain.poll_rows(until, 1000)
                assert queue.poll_rows(until, 1000).sort() == taken.sort()
            case _:
                until = chance.randrange(-20, 100)
                assert queue.poll(until) == plain.poll(until)
        if chance.randrange(3):
            continue  # what is not asked for in between is right later
        assert len(queue) == len(plain)
        assert queue.peek_ms() == plain.peek_ms()
        assert list(queue) == list(plain)
        times = sorted(timer.timestamp_ms for timer in plain)
        assert sorted(queue.times_ms().tolist()) == sorted(plain.times_ms().tolist()) == times
    assert list(queue.rows(1, 2)) == list(plain.rows(1, 2))


def test_a_limit_takes_a_part(queues):
    queue, plain = queues
    rows = [plain._codec.encode(Timer(at, f"key {at}", None)) for at in range(50)]
    queue.add_rows(pa.array(rows, pa.binary()))
    taken = []
    while part := queue.poll_rows(39, 7):
        assert len(part) <= 7
        taken += part.to_pylist()
    assert sorted(taken) == sorted(rows[:40])
    assert len(queue) == 10


def test_arrays_of_rows_say_what_single_rows_say():
    layout = TimerLayout(KeyLayout.of(pa.string(), pa.string(), 128))
    timers = [*some(random.Random(1), 20), Timer(-(2**63), "", None), Timer(2**63 - 1, "é", "")]
    rows = list(map(layout.encode, timers))
    for count in (0, 1, len(rows)):
        array = pa.array([b"before", *rows[:count], b"behind"], pa.binary())[1:-1]
        turned = by_time_many(array)
        assert turned.to_pylist() == list(map(by_time, rows[:count]))
        assert times_of(turned).tolist() == [timer.timestamp_ms for timer in timers[:count]]
        assert by_group_many(turned).to_pylist() == rows[:count]
        batch = layout.decode_many(array)
        found = zip(batch.times_ms.tolist(), batch.keys.keys, batch.namespaces, strict=True)
        assert list(found) == timers[:count]


@pytest.mark.parametrize("kind", ["heap", "rocksdb", "runs"])
def test_a_service_registers_and_takes_batches(tmp_path, kind):
    with open_backend(kind, None if kind == "heap" else tmp_path / "db") as backend:
        timers = backend.timer_service("t", lambda timer: None, lambda timer: None)
        for domain in TimeDomain:
            timers.register_many(domain, pa.array(["a", "b" * 200, "c"]), None, [30, 10, 20])
            timers.register_many(domain, ["a"], "window", [5])
            assert timers.count(domain) == 4
        assert timers.scheduled_ms == 5
        taken = timers.take_due(TimeDomain.PROCESSING, 20, 10)
        found = zip(taken.times_ms.tolist(), taken.keys.keys, taken.namespaces, strict=True)
        assert sorted(found) == [(5, "a", "window"), (10, "b" * 200, None), (20, "c", None)]
        assert timers.scheduled_ms == 30
        assert timers.count(TimeDomain.EVENT) == 4
