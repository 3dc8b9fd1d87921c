"""Uses keyed state on a disk that breaks: what is refused has to be refused plainly.

    broken_disk.py FOLDER FLAG

Writes whole rounds, breaks the disk by making the file FLAG, and says what each call raised then.
"""

import json
import sys
from pathlib import Path

import pyarrow as pa

from idlestate.retention.policy import TimeDomain
from idlestate.retention.ttl_config import StateTtlConfig
from idlestate.state.backend_factory import open_backend
from idlestate.state.descriptors import ListStateDescriptor, ValueStateDescriptor
from idlestate.timers.clock import FakeClock

KEYS = [f"key {number}" for number in range(3000)]
ROUNDS = 3


def states(backend):
    """A value with a time to live, and a list."""
    long, ttl = pa.int64(), StateTtlConfig(ttl_ms=10)
    return (
        backend.get_state(ValueStateDescriptor(name="value", value_type=long, ttl=ttl)),
        backend.get_state(ListStateDescriptor(name="list", value_type=long)),
    )


def calls(backend, folder):
    """Every kind of call that reads or writes the disk, by name."""
    value, elements = states(backend)
    timers = backend.timer_service("t", lambda timer: None, lambda timer: None)
    other = ValueStateDescriptor(name="another", value_type=pa.int64())
    backend.set_current_key(KEYS[0])
    return {
        "value": value.value,
        "get_many": lambda: value.get_many(KEYS),
        "list get": elements.get,
        "keys": lambda: list(backend.keys("list")),
        "put_many": lambda: value.put_many(KEYS, [99] * len(KEYS)),
        "update": lambda: value.update(99),
        "clear": value.clear,
        "add_many": lambda: elements.add_many(KEYS, [99] * len(KEYS)),
        "add": lambda: elements.add(99),
        "register_many": lambda: timers.register_many(
            TimeDomain.EVENT, KEYS, None, [1] * len(KEYS)
        ),
        "register": lambda: timers.register_event_time_timer(None, 5),
        "sweep": lambda: backend.sweep(100, 1_000_000),
        "compact": backend.compact,
        "snapshot": lambda: backend.snapshot(folder / "snapshot").finish(),
        "new state": lambda: backend.get_state(other),
    }


def main(folder: Path, flag: Path) -> None:
    with open_backend("rocksdb", folder / "db", clock=FakeClock(0)) as backend:
        value, elements = states(backend)
        for number in range(ROUNDS):
            value.put_many(KEYS, [number] * len(KEYS))
            elements.add_many(KEYS, [number] * len(KEYS))
        found = calls(backend, folder)
        backend.compact()
    # Opened again, so that nothing of it is in memory.
    backend = open_backend("rocksdb", folder / "db", clock=FakeClock(0))
    found = calls(backend, folder)
    flag.touch()
    said = {}
    for name, call in found.items():
        try:
            call()
            said[name] = ["", ""]
        except Exception as error:  # noqa: BLE001 - told to the test
            said[name] = [type(error).__name__, str(error)]
    flag.unlink()
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
