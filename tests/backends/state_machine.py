"""Random lives of keyed state: heap and RocksDB side by side, and a naive model beside both.

The model keeps every write with its time and never removes anything that has expired; a read
filters. That is all a reader can know under NeverReturnExpired while a time to live stays the
same or gets shorter. When expired values may be shown, or come back to life under a longer time
to live, the backends are compared with each other alone.
"""

import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from idlestate.backends.keyed.opening import open_backend
from idlestate.backends.keyed.snapshot import SnapshotMode
from idlestate.retention.ttl_config import (
    StateTtlConfig,
    StateVisibility,
    TtlTime,
    TtlUpdateType,
)
from idlestate.timers.clock import FakeClock
from tests.backends.golden_state import descriptor_of, plain, raw_of, run_op

KEYS = st.sampled_from(["", "a", "b", "\u043a\u043b\u044e\u0447", "\U0001d11e"])
SPACES = st.sampled_from([None, "", "w"])
USER_KEYS = st.sampled_from(["", "x", "y"])
NUMBERS = st.integers(-5, 5)

OPS = {
    "value": st.one_of(
        st.tuples(st.just("update"), st.tuples(st.sampled_from(["p", "q", None]))),
        st.tuples(st.just("value"), st.just(())),
    ),
    "list": st.one_of(
        st.tuples(st.just("add"), st.tuples(NUMBERS)),
        st.tuples(st.sampled_from(["addAll", "update"]), st.tuples(st.lists(NUMBERS, max_size=3))),
        st.tuples(st.sampled_from(["get", "get_first"]), st.just(())),
    ),
    "map": st.one_of(
        st.tuples(st.just("put"), st.tuples(USER_KEYS, NUMBERS)),
        st.tuples(st.just("putAll"), st.tuples(st.dictionaries(USER_KEYS, NUMBERS))),
        st.tuples(st.sampled_from(["get", "contains", "remove"]), st.tuples(USER_KEYS)),
        st.tuples(st.sampled_from(["entries", "keys", "values"]), st.just(())),
        st.tuples(st.just("iterator_remove"), st.tuples(st.lists(USER_KEYS))),
    ),
    "reducing": st.one_of(
        st.tuples(st.just("add"), st.tuples(NUMBERS)), st.tuples(st.just("get"), st.just(()))
    ),
}
OPS["aggregating"] = OPS["reducing"]

TTLS = st.builds(
    StateTtlConfig,
    ttl_ms=st.sampled_from([1, 10, 100]),
    update_type=st.sampled_from(TtlUpdateType),
    visibility=st.sampled_from(StateVisibility),
    time=st.sampled_from(TtlTime),
    full_snapshot=st.just(False),
    cleanup_in_background=st.just(False),
)


class Model:
    """Writes with their times; reads filter."""

    def __init__(self, kind, ttl):
        self.kind, self.ttl = kind, ttl
        self.items = {}

    def lives(self, stamp, now):
        return not self.ttl.enabled or stamp + self.ttl.ttl_ms > now

    def alive(self, address, now):
        return [item for item in self.items.get(address, []) if self.lives(item[-1], now)]

    def do(self, address, op, args, now):
        """Items are (value, time); of a map (key, value, time)."""
        items = self.alive(address, now)
        if self.ttl.updates_on_read and op in {"value", "get", "get_first", "contains"}:
            only = args[0] if args else None
            items = [
                (*item[:-1], now) if self.kind != "map" or item[0] == only else item
                for item in items
            ]
        if self.ttl.updates_on_read and op in {"entries", "keys", "values", "iterator_remove"}:
            items = [(*item[:-1], now) for item in items]
        kept, result = getattr(self, self.kind)(items, op, args, now)
        self.items[address] = kept
        return result

    def value(self, items, op, args, now):
        if op == "update":
            return ([] if args[0] is None else [(args[0], now)]), None
        return items, items[0][0] if items else None

    def list(self, items, op, args, now):
        values = [value for value, _ in items]
        match op:
            case "add":
                return [*items, (args[0], now)], None
            case "addAll":
                return [*items, *((each, now) for each in args[0])], None
            case "update":
                return [(each, now) for each in args[0]], None
            case "get_first":
                return items, values[0] if values else None
        # Without a time to live a list that is not there is None.
        return items, values if values or self.ttl.enabled else None

    def map(self, items, op, args, now):
        entries = {key: value for key, value, _ in items}
        put = {args[0]: args[1]} if op == "put" else args[0] if op == "putAll" else {}
        gone = {args[0]} if op == "remove" else set(args[0]) if op == "iterator_remove" else set()
        left = [item for item in items if item[0] not in put and item[0] not in gone]
        left += [(key, value, now) for key, value in put.items()]
        results = {
            "get": lambda: entries.get(args[0]),
            "contains": lambda: args[0] in entries,
            "entries": lambda: sorted(map(list, entries.items())),
            "iterator_remove": lambda: sorted(map(list, entries.items())),
            "keys": lambda: sorted(entries),
            "values": lambda: sorted(entries.values()),
        }
        return left, results.get(op, lambda: None)()

    def reducing(self, items, op, args, now):
        if op == "add":
            return [((items[0][0] if items else 0) + args[0], now)], None
        return items, items[0][0] if items else None

    def aggregating(self, items, op, args, now):
        if op == "add":
            total, count = items[0][0] if items else (0, 0)
            return [((total + args[0], count + 1), now)], None
        return items, list(items[0][0]) if items else None


class KeyedState(RuleBasedStateMachine):
    """One state of each backend, fed with the same steps."""

    @initialize(kind=st.sampled_from(sorted(OPS)), ttl=TTLS)
    def begin(self, kind, ttl):
        self.folder = Path(tempfile.mkdtemp(prefix="idlestate-machine-"))
        self.kind, self.ttl = kind, ttl
        self.clock = FakeClock(1000)
        self.model = None if ttl.returns_expired else Model(kind, ttl)
        self.opened = 0
        self.addresses = set()
        self.backends, self.states = {}, {}
        for name in ("heap", "rocksdb"):
            self.open(name, [])

    def open(self, name, restore):
        self.opened += 1
        place = None if name == "heap" else self.folder / f"db{self.opened}"
        backend = open_backend(name, place, clock=self.clock, restore=restore)
        backend.watermark.advance(self.clock.now_ms())
        self.backends[name] = backend
        self.states[name] = backend.get_state(descriptor_of(self.kind, self.ttl))

    def each(self, address, act):
        key, namespace = address
        found = []
        for name, backend in self.backends.items():
            backend.set_current_key(key)
            self.states[name].set_current_namespace(namespace)
            found.append(plain(act(self.states[name])))
        assert found[0] == found[1]
        return found[0]

    @rule(key=KEYS, namespace=SPACES, data=st.data())
    def operate(self, key, namespace, data):
        op, args = data.draw(OPS[self.kind])
        address = (key, namespace)
        self.addresses.add(address)
        result = self.each(address, lambda state: run_op(state, op, list(args)))
        if self.model is not None:
            expected = self.model.do(address, op, args, self.clock.now_ms())
            assert result == plain(expected), (op, args)

    @rule(key=KEYS, namespace=SPACES)
    def clear(self, key, namespace):
        self.each((key, namespace), lambda state: state.clear())
        if self.model is not None:
            self.model.items.pop((key, namespace), None)

    @rule(by_ms=st.sampled_from([0, 1, 9, 10, 99, 100]))
    def pass_time(self, by_ms):
        self.clock.advance(by_ms)
        for backend in self.backends.values():
            backend.watermark.advance(self.clock.now_ms())

    @rule(budget=st.integers(1, 4))
    def sweep(self, budget):
        for backend in self.backends.values():
            while not backend.sweep(self.clock.now_ms(), budget).done:
                pass

    @rule()
    def compact(self):
        for backend in self.backends.values():
            backend.compact()

    @rule(mode=st.sampled_from(SnapshotMode), swapped=st.booleans(), ttl=st.none() | TTLS)
    def restore(self, mode, swapped, ttl):
        """Begin again from snapshots, perhaps on the other backend, perhaps with another ttl."""
        folders = {}
        for name, backend in self.backends.items():
            folders[name] = self.folder / f"snapshot-{self.opened}-{name}"
            held = backend.snapshot(folders[name], mode)
            held.finish()
            backend.close()
        if ttl is not None and ttl.enabled == self.ttl.enabled:
            if ttl.ttl_ms > self.ttl.ttl_ms or ttl.returns_expired or self.model is None:
                self.model = None  # what has expired may come back
            else:
                self.model.ttl = ttl
            self.ttl = ttl
        for name, other in (("heap", "rocksdb"), ("rocksdb", "heap")):
            self.open(name, [folders[other if swapped else name]])

    @precondition(lambda self: self.addresses)
    @invariant()
    def both_store_the_same(self):
        for address in self.addresses:
            left, right = (raw_of(state, *address) for state in self.states.values())
            assert (left or None) == (right or None)

    def teardown(self):
        for backend in getattr(self, "backends", {}).values():
            backend.close()
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)
