"""Random lives of keyed state: all backends side by side, and a naive model beside them.

Each step is done to all, in single calls or in batches, and compared: what it gives back with the
model, then what is stored, timestamps included.
"""

import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import assume
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from idlestate.retention.policy import TimeDomain
from idlestate.state.backend_factory import open_backend
from idlestate.state.key_groups import key_group_range, operator_index
from idlestate.state.snapshot import SnapshotMode
from idlestate.timers.clock import FakeClock
from tests.state.golden_state import descriptor_of, plain, raw_of, run_op
from tests.state.state_model import Model
from tests.state.state_steps import (
    ADDRESSES,
    BATCHES,
    CALLS,
    LAPSES,
    MEMORY,
    NAMESPACES,
    NOT_SIMPLEST,
    ROWS,
    TEXTS,
    TTLS,
)

BACKENDS = ("heap", "rocksdb", "runs")
MAX_PARALLELISM = 8
WATERMARK_DELAY_MS = 3
SAME = "same"
"""A restore keeps the time to live."""

# RocksDB's files cost as much as a hundred other steps: these steps come that far apart.
STEPS_BETWEEN_RESTORES = 40
STEPS_BETWEEN_COMPACTIONS = 15
STEPS_BETWEEN_LOOKS = 8
"""What was touched is compared after each step, everything after so many."""


def machine_of(kind, ttls):
    """Lives of one kind that begin with one of these times to live."""
    return type("KeyedState", (KeyedState,), {"kind": kind, "ttls": ttls})


class KeyedState(RuleBasedStateMachine):
    """One state of each backend, fed with the same steps; a backend is one or more instances.

    Attributes:
        kind: the kind of state.
        ttls: times to live that it may begin with; a restore may take any.
        taken: how many steps all machines have taken.
    """

    kind = "value"
    ttls = TTLS
    taken = 0

    @initialize(data=st.data(), any_number=NOT_SIMPLEST)
    def begin(self, data, any_number):
        assume(any_number)
        self.folder = Path(tempfile.mkdtemp(prefix="idlestate-machine-", dir=MEMORY))
        self.ttl = data.draw(st.sampled_from(self.ttls))
        self.clock, self.model = FakeClock(1000), Model(self.kind, self.ttl)
        self.opened, self.parallelism = 0, 1
        self.restored = self.compacted = self.looked = 0
        self.touched, self.addresses = set(), set()
        self.backends, self.states, self.places = {}, {}, {}
        for name in BACKENDS:
            self.open(name, [])

    def open(self, name, restore):
        self.backends[name], self.states[name], self.places[name] = [], [], []
        for index in range(self.parallelism):
            self.opened += 1
            self.places[name].append(None if name == "heap" else self.folder / f"db{self.opened}")
            backend = self.open_one(name, index, restore)
            self.backends[name].append(backend)
            self.states[name].append(backend.get_state(descriptor_of(self.kind, self.ttl)))

    def open_one(self, name, index, restore):
        backend = open_backend(
            name,
            self.places[name][index],
            clock=self.clock,
            restore=restore,
            max_parallelism=MAX_PARALLELISM,
            groups=key_group_range(MAX_PARALLELISM, self.parallelism, index),
        )
        backend.watermark.advance(self.clock.now_ms() - WATERMARK_DELAY_MS)
        return backend

    @property
    def now(self):
        """The time that counts for the state."""
        is_event = self.ttl is not None and self.ttl.time is TimeDomain.EVENT
        behind = WATERMARK_DELAY_MS if is_event else 0
        return self.clock.now_ms() - behind

    @property
    def instances(self):
        return [backend for each in self.backends.values() for backend in each]

    def index(self, key):
        group = self.backends["heap"][0].key_group(key)
        return operator_index(group, MAX_PARALLELISM, self.parallelism)

    def each(self, address, act):
        """Act on all; what they give."""
        key, namespace = address
        at, found = self.index(key), []
        self.touched.add(address)
        for name, instances in self.backends.items():
            instances[at].set_current_key(key)
            state = self.states[name][at]
            state.set_current_namespace(namespace)
            found.append(plain(act(state)))
        assert found[1:] == found[:-1]
        return found[0]

    def many(self, columns, namespace, name):
        """Call a batch method on each instance with the rows of its keys; what it gives, by row."""
        at, given_back = [self.index(key) for key in columns[0]], []
        self.touched.update((key, namespace) for key in columns[0])
        for states in self.states.values():
            found = [None] * len(at)
            for index, state in enumerate(states):
                mine = [row for row, each in enumerate(at) if each == index]
                if not mine:
                    continue
                state.set_current_namespace(namespace)
                given = getattr(state, name)(*([column[row] for row in mine] for column in columns))
                for row, value in zip(mine, given or [None] * len(mine), strict=True):
                    found[row] = unpacked(value)
            given_back.append(found)
        assert given_back[1:] == given_back[:-1]
        return given_back[0]

    @rule(rows=ROWS, namespace=NAMESPACES)
    def write_many(self, rows, namespace):
        """A batch writes what calls one by one write."""
        keys, user_keys, values = zip(*rows, strict=True)
        if self.kind == "value":
            values = [TEXTS[value % len(TEXTS)] for value in values]
        columns = (keys, user_keys, values) if self.kind == "map" else (keys, values)
        name, op = BATCHES.get(self.kind, ("add_many", "add"))
        self.many(columns, namespace, name)
        for key, *args in zip(*columns, strict=True):
            self.model.do((key, namespace), op, args, self.now)

    @rule(rows=ROWS, namespace=NAMESPACES)
    def read_many(self, rows, namespace):
        """A batch reads what calls one by one read."""
        columns = list(zip(*rows, strict=True))[: 2 if self.kind == "map" else 1]
        found = self.many(columns, namespace, "get_many")
        op = "value" if self.kind == "value" else "get"
        for (key, *args), each in zip(zip(*columns, strict=True), found, strict=True):
            assert each == self.model.do((key, namespace), op, args, self.now)

    @rule(rows=ROWS, namespace=NAMESPACES, entries=st.booleans())
    def remove_many(self, rows, namespace, entries):
        keys, user_keys, _ = zip(*rows, strict=True)
        if entries and self.kind == "map":
            self.many((keys, user_keys), namespace, "remove_entries")
            for key, user_key in zip(keys, user_keys, strict=True):
                self.model.do((key, namespace), "remove", [user_key], self.now)
        else:
            self.many((keys,), namespace, "remove_many")
            for key in keys:
                self.model.clear((key, namespace))

    @rule(address=ADDRESSES, data=st.data())
    def call(self, address, data):
        op, *args = data.draw(CALLS[self.kind])
        if op == "iterator_remove":
            # What has expired is gone when an iteration shows it: to remove it is an error.
            here = self.model.stored.get(address, [])
            dead = [item[0] for item in here if not self.model.lives(item, self.now)]
            args = [[each for each in args[0] if each not in dead]]
        result = self.each(address, lambda state: run_op(state, op, args))
        assert result == self.model.do(address, op, args, self.now), (op, args)

    @rule(address=ADDRESSES)
    def clear(self, address):
        self.each(address, lambda state: state.clear())
        self.model.clear(address)

    @rule(lapse=LAPSES)
    def pass_time(self, lapse):
        """Often to the very millisecond at which what was just written expires."""
        lives, more_ms = lapse
        life_ms = 100 if self.ttl is None else min(self.ttl.ttl_ms, 100)
        self.clock.advance(max(lives * life_ms + more_ms, 0))
        for backend in self.instances:
            backend.watermark.advance(self.clock.now_ms() - WATERMARK_DELAY_MS)

    @rule(lapse=LAPSES, budget=st.sampled_from([1, 4, 100]), records=st.booleans())
    def sweep(self, lapse, budget, records):
        """Sweeps remove all that has expired; their records tell what."""
        self.pass_time(lapse)
        expected = self.model.sweep(self.now)
        for instances in self.backends.values():
            stamps, removed = [], 0
            for backend in instances:
                done = False
                while not done:
                    report = backend.sweep(self.now, budget, records=records)
                    done, removed = report.done, removed + report.removed
                    for table in report.expired.values():
                        stamps += table["written_at_ms"].to_pylist()
            assert removed == expected
            assert len(stamps) == (removed if records else 0)
            assert all(stamp + self.ttl.ttl_ms <= self.now for stamp in stamps)
        self.look_at_all()

    @rule()
    def expiry_times(self):
        """All backends tell when each stored value expires; one that has expired, when it did."""
        for instances in self.backends.values():
            found = [backend.expiry_times_ms("state") for backend in instances]
            if self.ttl is None:
                assert found == [None] * len(instances)
                continue
            together = sorted(time for each in found for time in each.tolist())
            assert together == self.model.expiry_times()

    @precondition(lambda self: self.compacted >= STEPS_BETWEEN_COMPACTIONS)
    @rule()
    def compact(self):
        self.compacted = 0
        for backend in self.instances:
            backend.compact()
        self.look_at_all()

    @precondition(lambda self: self.restored >= STEPS_BETWEEN_RESTORES)
    @rule(
        mode=st.sampled_from(SnapshotMode),
        swapped=st.booleans(),
        ttl=st.sampled_from([SAME, *TTLS]),
        parallelism=st.integers(1, 3),
    )
    def restore(self, mode, swapped, ttl, parallelism):
        """Begin again from snapshots, perhaps on the other backend, with another ttl, in others."""
        self.restored, folders = 0, {}
        for name, instances in self.backends.items():
            folders[name] = []
            for index, backend in enumerate(instances):
                folder = self.folder / f"snapshot-{self.opened}-{name}-{index}"
                backend.snapshot(folder, mode).finish()
                backend.close()
                folders[name].append(folder)
        self.parallelism = parallelism
        if ttl != SAME:
            self.ttl = ttl
            self.model.use(ttl, self.now)
        for name, other in zip(BACKENDS, (*BACKENDS[1:], BACKENDS[0]), strict=True):
            self.open(name, folders[other if swapped else name])
        self.look_at_all()

    @rule(merge=st.booleans(), again=st.booleans())
    def border(self, merge, again):
        """The border of a batch on runs, perhaps with a merge of all runs, or a new start."""
        for index, backend in enumerate(self.backends["runs"]):
            backend.commit()
            if merge:
                backend.compact()
            if again:
                backend.close()
                self.backends["runs"][index] = self.open_one("runs", index, [])
                descriptor = descriptor_of(self.kind, self.ttl)
                self.states["runs"][index] = self.backends["runs"][index].get_state(descriptor)

    def look_at_all(self):
        self.touched |= self.addresses
        self.looked = 0

    @invariant()
    def all_store_the_same(self):
        KeyedState.taken += 1
        self.restored += 1
        self.compacted += 1
        self.looked += 1
        self.addresses |= self.touched
        if self.looked >= STEPS_BETWEEN_LOOKS:
            self.look_at_all()
        for address in self.touched:
            at, expected = self.index(address[0]), self.model.raw(address)
            for states in self.states.values():
                found = raw_of(states[at], *address)
                assert (None if found == {} else found) == expected  # heap keeps empty maps
        self.touched.clear()

    def teardown(self):
        for instances in getattr(self, "backends", {}).values():
            for backend in instances:
                backend.close()
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)


def unpacked(value):
    """An Arrow value as JSON has it, an accumulator as a list."""
    found = None if value is None else value.as_py()
    return list(found.values()) if isinstance(found, dict) else found
