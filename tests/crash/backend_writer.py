"""Writes keyed state without end, and says what was acknowledged: killed by its parent.

    backend_writer.py FOLDER FIRST KIND

Round n puts n into the value of every key in one batch, appends n to every list, writes values
that live for some rounds, registers a timer for n, and now and then sweeps, compacts or takes a
snapshot.
One line goes out before each of these, with its name, and one with n per round that is done. On
runs a round is done when it is committed.
"""

import sys
from pathlib import Path

import pyarrow as pa

from idlestate.retention.policy import TimeDomain
from idlestate.retention.ttl_config import StateTtlConfig
from idlestate.state.backend_factory import open_backend
from idlestate.state.descriptors import ListStateDescriptor, ValueStateDescriptor
from idlestate.state.rocksdb import sweep_of_rows
from idlestate.state.runs import runs_items
from idlestate.timers.clock import FakeClock

KEYS = [f"key {number}" for number in range(300)]
TTL_ROUNDS = 50
BRIEF_KEYS = 40


def brief_keys(number):
    """Keys of the short-lived values of a round."""
    return [f"{number} {at}" for at in range(BRIEF_KEYS)]


def states(backend):
    """The value, the list, and the short-lived value that a run writes."""
    long = pa.int64()
    brief = StateTtlConfig(ttl_ms=TTL_ROUNDS)
    sweep_of_rows.RANGE = 4  # so that sweeps delete ranges too
    return (
        backend.get_state(ValueStateDescriptor(name="value", value_type=long)),
        backend.get_state(ListStateDescriptor(name="list", value_type=long)),
        backend.get_state(ValueStateDescriptor(name="brief", value_type=long, ttl=brief)),
    )


def service(backend):
    return backend.timer_service("rounds", lambda timer: None, lambda timer: None)


def main(folder: Path, first: int, kind: str) -> None:
    clock = FakeClock(first)
    runs_items.CELL_BYTES = 40  # so that lists on runs soon move into their second table
    with open_backend(kind, folder / "db", clock=clock) as backend:
        value, elements, brief = states(backend)
        timers = service(backend)
        for number in range(first, 1_000_000):
            value.put_many(KEYS, [number] * len(KEYS))
            elements.add_many(KEYS, [number] * len(KEYS))
            brief.put_many(brief_keys(number), [number] * BRIEF_KEYS)
            timers.register_many(TimeDomain.EVENT, [KEYS[0]], None, [number])
            clock.advance(1)
            if number % 7 == 0:
                print("sweep", flush=True)
                backend.sweep(clock.now_ms(), 2000)
            if kind == "runs":
                print("commit", flush=True)
                backend.commit()
            if number % 11 == 0:
                print("compact", flush=True)
                backend.compact()
            if number % 13 == 0:
                print("snapshot", flush=True)
                backend.snapshot(folder / f"snapshot-{number}").finish()
            print(number, flush=True)
            print("write", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
