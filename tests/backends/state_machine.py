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

from idlestate.backends.keyed.key_groups import key_group_range, operator_index
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

MAX_PARALLELISM = 8
STEPS_BETWEEN_RESTORES = 12

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


BATCHES = {
    "value": ("put_many", st.sampled_from(["p", "q", None])),
    "list": ("add_many", NUMBERS),
    "reducing": ("add_many", NUMBERS),
    "aggregating": ("add_many", NUMBERS),
}
"""Per kind what writes a batch, and what is written; a map has user keys beside."""


class KeyedState(RuleBasedStateMachine):
    """One state of each backend, fed with the same steps; a backend is one or more instances."""

    @initialize(kind=st.sampled_from(sorted(OPS)), ttl=TTLS)
    def begin(self, kind, ttl):
        self.folder = Path(tempfile.mkdtemp(prefix="idlestate-machine-"))
        self.kind, self.ttl = kind, ttl
        self.clock = FakeClock(1000)
        self.model = None if ttl.returns_expired else Model(kind, ttl)
        self.opened, self.parallelism, self.steps = 0, 1, 0
        self.addresses = set()
        self.backends, self.states = {}, {}
        for name in ("heap", "rocksdb"):
            self.open(name, [])

    def open(self, name, restore):
        self.backends[name], self.states[name] = [], []
        for index in range(self.parallelism):
            self.opened += 1
            place = None if name == "heap" else self.folder / f"db{self.opened}"
            groups = key_group_range(MAX_PARALLELISM, self.parallelism, index)
            backend = open_backend(
                name,
                place,
                clock=self.clock,
                restore=restore,
                max_parallelism=MAX_PARALLELISM,
                groups=groups,
            )
            backend.watermark.advance(self.clock.now_ms())
            self.backends[name].append(backend)
            self.states[name].append(backend.get_state(descriptor_of(self.kind, self.ttl)))

    @property
    def instances(self):
        return [backend for each in self.backends.values() for backend in each]

    def index(self, key):
        group = self.backends["heap"][0].key_group(key)
        return operator_index(group, MAX_PARALLELISM, self.parallelism)

    def each(self, address, act):
        key, namespace = address
        at, found = self.index(key), []
        for name, instances in self.backends.items():
            instances[at].set_current_key(key)
            state = self.states[name][at]
            state.set_current_namespace(namespace)
            found.append(plain(act(state)))
        assert found[0] == found[1]
        return found[0]

    def many(self, keys, namespace, act):
        """Act on each instance with the positions of its keys; what it gives, by position."""
        at, both = [self.index(key) for key in keys], []
        for states in self.states.values():
            found = [None] * len(keys)
            for index, state in enumerate(states):
                mine = [place for place, each in enumerate(at) if each == index]
                if not mine:
                    continue
                state.set_current_namespace(namespace)
                given = act(state, mine)
                for place, value in zip(mine, given or [None] * len(mine), strict=True):
                    found[place] = value
            both.append(found)
        assert both[0] == both[1]
        return both[0]

    @rule(keys=st.lists(KEYS, min_size=1, max_size=8), namespace=SPACES, data=st.data())
    def write_many(self, keys, namespace, data):
        """A batch writes what calls one by one write."""
        user_keys = [data.draw(USER_KEYS) for _ in keys] if self.kind == "map" else None
        name, values = BATCHES.get(self.kind, ("put_many", NUMBERS))
        given = [data.draw(values) for _ in keys]

        def write(state, mine):
            columns = [keys] + ([user_keys] if user_keys else []) + [given]
            getattr(state, name)(*([column[at] for at in mine] for column in columns))

        self.many(keys, namespace, write)
        op = {"value": "update", "map": "put"}.get(self.kind, "add")
        for at, key in enumerate(keys):
            self.addresses.add((key, namespace))
            if self.model is not None:
                args = ([user_keys[at]] if user_keys else []) + [given[at]]
                self.model.do((key, namespace), op, args, self.clock.now_ms())

    @rule(keys=st.lists(KEYS, min_size=1, max_size=8), namespace=SPACES, data=st.data())
    def read_many(self, keys, namespace, data):
        """A batch reads what calls one by one read."""
        user_keys = [data.draw(USER_KEYS) for _ in keys] if self.kind == "map" else None

        def read(state, mine):
            columns = [keys] + ([user_keys] if user_keys else [])
            found = state.get_many(*([column[at] for at in mine] for column in columns))
            return [
                tuple(each.values()) if isinstance(each, dict) else each
                for each in found.to_pylist()
            ]

        found = self.many(keys, namespace, read)
        if self.model is not None:
            op = "value" if self.kind == "value" else "get"
            for at, key in enumerate(keys):
                args = [user_keys[at]] if user_keys else []
                expected = self.model.do((key, namespace), op, args, self.clock.now_ms())
                assert plain(found[at]) == plain(expected)

    @rule(keys=st.lists(KEYS, min_size=1, max_size=8), namespace=SPACES)
    def remove_many(self, keys, namespace):
        self.many(keys, namespace, lambda state, mine: state.remove_many([keys[at] for at in mine]))
        if self.model is not None:
            for key in keys:
                self.model.items.pop((key, namespace), None)

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
        for backend in self.instances:
            backend.watermark.advance(self.clock.now_ms())

    @rule(budget=st.integers(1, 4), records=st.booleans())
    def sweep(self, budget, records):
        """Sweeps remove the same on both; what they say they removed had expired."""
        now, removed = self.clock.now_ms(), {"heap": 0, "rocksdb": 0}
        for name, instances in self.backends.items():
            for backend in instances:
                done = False
                while not done:
                    report = backend.sweep(now, budget, records=records)
                    done = report.done
                    removed[name] += report.removed
                    stamps = [
                        stamp
                        for table in report.expired.values()
                        for stamp in table["written_at_ms"].to_pylist()
                    ]
                    assert len(stamps) == (report.removed if records else 0)
                    assert all(stamp + self.ttl.ttl_ms <= now for stamp in stamps)
        assert removed["heap"] == removed["rocksdb"]

    @rule()
    def compact(self):
        for backend in self.instances:
            backend.compact()

    # Opening RocksDB takes longer than a hundred other steps.
    @precondition(lambda self: self.steps >= STEPS_BETWEEN_RESTORES)
    @rule(
        mode=st.sampled_from(SnapshotMode),
        swapped=st.booleans(),
        ttl=st.none() | TTLS,
        parallelism=st.integers(1, 3),
    )
    def restore(self, mode, swapped, ttl, parallelism):
        """Begin again from snapshots, perhaps on the other backend, with another ttl, in others."""
        self.steps = 0
        folders = {}
        for name, instances in self.backends.items():
            folders[name] = []
            for index, backend in enumerate(instances):
                folder = self.folder / f"snapshot-{self.opened}-{name}-{index}"
                backend.snapshot(folder, mode).finish()
                backend.close()
                folders[name].append(folder)
        self.parallelism = parallelism
        if ttl is not None and ttl.enabled == self.ttl.enabled:
            if ttl.ttl_ms > self.ttl.ttl_ms or ttl.returns_expired or self.model is None:
                self.model = None  # what has expired may come back
            else:
                self.model.ttl = ttl
            self.ttl = ttl
        for name, other in (("heap", "rocksdb"), ("rocksdb", "heap")):
            self.open(name, folders[other if swapped else name])

    @precondition(lambda self: self.addresses)
    @invariant()
    def both_store_the_same(self):
        self.steps += 1
        for address in self.addresses:
            at = self.index(address[0])
            left, right = (raw_of(states[at], *address) for states in self.states.values())
            assert (left or None) == (right or None)

    def teardown(self):
        for instances in getattr(self, "backends", {}).values():
            for backend in instances:
                backend.close()
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)
