"""Replays one recorded trace of keyed state against a backend of this library."""

import random
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from idlestate.retention.policy import TimeDomain
from idlestate.retention.ttl_config import (
    CompactionCleanup,
    IncrementalCleanup,
    StateTtlConfig,
)
from idlestate.state.backend import KeyedStateBackend
from idlestate.state.backend_factory import open_backend
from idlestate.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from idlestate.state.errors import (
    IteratorStateError,
    NullValueError,
    StateKindError,
    StateMigrationError,
)
from idlestate.state.key_groups import KeyGroupRange, key_group_range, operator_index
from idlestate.state.runs import runs_items
from idlestate.state.snapshot import Snapshot, SnapshotMode
from idlestate.state.table import ListTable, MapTable, SingleTable
from idlestate.state.value_state import ValueState
from idlestate.timers.clock import FakeClock
from tests.golden_files import FLINK
from tests.state.state_steps import MEMORY, in_recorded_order

Step = dict[str, Any]

BACKENDS = {"hashmap": "heap", "rocksdb": "rocksdb", "runs": "runs"}
"""Recorded on the first two; runs do what heap does."""

STEPS_BETWEEN_BORDERS = 20

STEPS_BETWEEN_SIZES = 7
"""A size counts all entries one by one: half of the time of a replay, if after every step."""

ERRORS: dict[type[Exception], str] = {
    NullValueError: "NullPointerException",
    StateKindError: "IllegalStateException",
    IteratorStateError: "IllegalStateException",
    StateMigrationError: "StateMigrationException",
    StopIteration: "NoSuchElementException",
    ValueError: "IllegalArgumentException",
    TypeError: "NullPointerException",
}

WRONG_MS = 10**15
"""What the clock says that does not count."""

ACCUMULATOR = pa.struct([("sum", pa.int64()), ("count", pa.int64())])


def may_differ(trace: dict[str, Any]) -> bool:
    """Whether this size of cells matters to a trace: 0 puts lists and maps into second tables."""
    return runs_items.CELL_BYTES > 0 or has_items(trace)


def has_items(trace: dict[str, Any]) -> bool:
    """Whether its state is a list or a map."""
    return trace["kind"] in {"list", "strlist", "map"}


class SumAndCount:
    """The recorded aggregate function."""

    def create_accumulator(self):
        return (0, 0)

    def add(self, value, accumulator):
        return (accumulator[0] + value, accumulator[1] + 1)

    def get_result(self, accumulator):
        return accumulator

    def merge(self, left, right):
        return (left[0] + right[0], left[1] + right[1])


def error_name(error: Exception) -> str:
    return next((name for kind, name in ERRORS.items() if isinstance(error, kind)), repr(error))


def ttl_of(
    config: dict[str, Any], time: TimeDomain = TimeDomain.PROCESSING
) -> StateTtlConfig | None:
    if config["update_type"] == "Disabled":
        return None
    cleanup = config["cleanup"]
    incremental, each = cleanup["incremental"], cleanup["rocksdb_filter"]
    if isinstance(each, list):
        each = each[0]
    return StateTtlConfig(
        ttl_ms=config["ttl_ms"],
        update_type=FLINK[config["update_type"]],
        visibility=FLINK[config["visibility"]],
        time=time,
        full_snapshot=cleanup["full_snapshot"],
        incremental=incremental and IncrementalCleanup(*incremental),
        compaction=None if each is None else CompactionCleanup(each),
        cleanup_in_background=cleanup["background"],
    )


def runs_forward(steps: list[Step]) -> bool:
    times = [step["t"] for step in steps]
    return times == sorted(times)


def descriptor_of(kind: str, ttl: StateTtlConfig | None, **more: Any) -> StateDescriptor[Any]:
    name = more.pop("name", "state")
    match kind:
        case "value":
            value = more.pop("value_type", pa.string())
            return ValueStateDescriptor(name=name, value_type=value, ttl=ttl, **more)
        case "list":
            return ListStateDescriptor(name=name, value_type=pa.int64(), ttl=ttl)
        case "strlist":
            return ListStateDescriptor(name=name, value_type=pa.string(), ttl=ttl)
        case "map":
            return MapStateDescriptor(
                name=name, key_type=pa.string(), value_type=pa.int64(), ttl=ttl
            )
        case "reducing":
            return ReducingStateDescriptor(
                name=name, value_type=pa.int64(), reduce=lambda a, b: a + b, ttl=ttl
            )
        case "aggregating":
            return AggregatingStateDescriptor(
                name=name, value_type=ACCUMULATOR, aggregate=SumAndCount(), ttl=ttl
            )
    raise AssertionError(f"unknown kind {kind!r}")


def plain(value: Any) -> Any:
    """As JSON has it."""
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def raw_of(state: Any, key: str, namespace: Any = None) -> Any:
    """What the state below the TTL layer reads: without TTL that is the state with its default."""
    table = state.table
    if isinstance(table, MapTable):
        entries = table.user_keys(key, namespace)
        return {each: plain(table.get(key, namespace, each)) for each in entries}
    assert isinstance(table, SingleTable | ListTable)
    found = plain(table.get(key, namespace))
    return state._default if found is None and type(state) is ValueState else found


def run_op(state: Any, op: str, args: list[Any]) -> Any:
    """One recorded operation; what it gives back."""
    match op:
        case "get_first":
            elements = state.get()
            return None if elements is None else next(iter(elements), None)
        case "get" if not args:
            found = state.get()
            if found is None or isinstance(found, int | str | tuple):
                return plain(found)
            return list(found)
        case "keys" | "values":
            return sorted(getattr(state, op)(), key=lambda each: (each is None, each))
        case "entries":
            return sorted(plain(list(state.entries())))
        case "iterator_remove":
            seen, entries = [], in_recorded_order(state)
            for entry in entries:
                seen.append(plain((entry.key, entry.value)))
                if entry.key in args[0]:
                    entries.remove()
            return sorted(seen)
    names = {"addAll": "add_all", "putAll": "put_all", "isEmpty": "is_empty"}
    return plain(getattr(state, names.get(op, op))(*args))


class Replay:
    """The backends of one trace, one for each parallel instance."""

    def __init__(
        self,
        trace: dict[str, Any],
        stack: ExitStack,
        *,
        compare_sizes=True,
        compare_raw=True,
        time=TimeDomain.PROCESSING,
    ):
        self.trace = trace
        self.time = time
        self.clock = FakeClock(trace["ops"][0]["t"])
        self.stack = stack
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=MEMORY)))
        self.snapshots: list[Path] = []
        self.held: list[Snapshot] = []
        self.seen: dict[str, None] = {}
        self.compare_sizes, self.compare_raw = compare_sizes, compare_raw
        self.compare_results = True
        self.recorded_size = self.opened = 0
        self.chance = random.Random(trace["trace"])
        self.open(trace, [])

    def open(self, config: dict[str, Any], restore: list[Path]) -> None:
        self.config = config
        self.backends: list[KeyedStateBackend] = []
        self.states: list[Any] = []
        self.places: list[Path | None] = []
        self.groups: list[KeyGroupRange] = []
        descriptor = descriptor_of(config["kind"], ttl_of(config, self.time))
        total, count = config["max_parallelism"], config["parallelism"]
        for index in range(count):
            self.opened += 1
            kind = self.kind_of(config["backend"])
            self.places.append(None if kind == "heap" else self.folder / f"db{self.opened}")
            self.groups.append(key_group_range(total, count, index))
            backend = self.open_one(kind, index, restore)
            self.backends.append(backend)
            self.states.append(backend.get_state(descriptor))

    def open_one(self, kind: str, index: int, restore: list[Path]) -> KeyedStateBackend:
        backend = open_backend(
            kind,
            self.places[index],
            max_parallelism=self.config["max_parallelism"],
            groups=self.groups[index],
            clock=self.clock if self.time is TimeDomain.PROCESSING else FakeClock(WRONG_MS),
            restore=restore,
        )
        backend.watermark.advance(
            self.clock.now_ms() if self.time is TimeDomain.EVENT else WRONG_MS
        )
        self.stack.callback(backend.close)
        return backend

    def kind_of(self, recorded: str) -> str:
        """The kind of backend that does what was recorded on this one."""
        is_runs = self.trace["backend"] == "runs" and recorded == "hashmap"
        return BACKENDS["runs" if is_runs else recorded]

    def border(self) -> None:
        """Between two steps on runs: the border of a batch, a merge, or a new start."""
        for index, backend in enumerate(self.backends):
            if backend.kind != "runs" or self.held:
                continue
            match self.chance.randrange(STEPS_BETWEEN_BORDERS):
                case 0:
                    backend.commit()
                case 1:
                    backend.compact()
                case 2:
                    backend.commit()
                    backend.close()
                    self.backends[index] = self.open_one("runs", index, [])
                    descriptor = descriptor_of(self.config["kind"], ttl_of(self.config, self.time))
                    self.states[index] = self.backends[index].get_state(descriptor)

    def index(self, key: str) -> int:
        group = self.backends[0].key_group(key)
        return operator_index(group, self.config["max_parallelism"], len(self.backends))

    def size(self) -> int:
        return sum(backend.size("state") for backend in self.backends)

    def dump(self) -> dict[str, Any]:
        found = {key: raw_of(self.states[self.index(key)], key) for key in self.seen}
        return {key: raw for key, raw in found.items() if raw}

    def step(self, step: Step) -> None:
        self.border()
        self.clock.advance(step["t"] - self.clock.now_ms())
        if self.time is TimeDomain.EVENT:
            for backend in self.backends:
                backend.watermark.advance(step["t"])
        match step["op"]:
            case "snapshot_start":
                mode = SnapshotMode(step["mode"])
                self.snapshots, self.held = [], []
                for number, backend in enumerate(self.backends):
                    folder = self.folder / f"snapshot-{self.opened}-{number}"
                    self.snapshots.append(folder)
                    self.held.append(backend.snapshot(folder, mode))
            case "snapshot_finish":
                for held in self.held:
                    held.finish()
                self.held = []
            case "restore":
                for backend in self.backends:
                    backend.close()
                self.open(step["config"], self.snapshots)
                self.compare_dump(step)
            case "compact":
                for backend in self.backends:
                    backend.compact()
                self.compare_dump(step)
            case _:
                self.operation(step)

    def compare_dump(self, step: Step) -> None:
        assert self.dump() == step["dump"]
        assert self.size() == step["size"]

    def operation(self, step: Step) -> None:
        key = step["key"]
        self.seen[key] = None
        at = self.index(key)
        state = self.states[at]
        error = result = None
        self.backends[at].set_current_key(key)
        try:
            result = run_op(state, step["op"], step["args"])
        except Exception as raised:  # noqa: BLE001 - compared with the recorded one
            error = error_name(raised)
        if self.compare_results:
            assert error == step.get("error")
            assert error or result == step.get("result")
        if self.compare_raw:
            assert raw_of(state, key) == step["raw"]
        # A size is compared where the recorded one changes, and now and then where it does not.
        changed, self.recorded_size = step["size"] != self.recorded_size, step["size"]
        if self.compare_sizes and (changed or not self.chance.randrange(STEPS_BETWEEN_SIZES)):
            assert self.size() == step["size"]


def replay(
    trace: dict[str, Any], *, compare_sizes: bool = True, time: TimeDomain = TimeDomain.PROCESSING
) -> int:
    """Replay a trace; the number of steps."""
    with ExitStack() as stack:
        run = Replay(trace, stack, compare_sizes=compare_sizes, time=time)
        for number, step in enumerate(trace["ops"]):
            try:
                run.step(step)
            except AssertionError as error:
                raise AssertionError(f"{trace['trace']} step {number}: {step}\n{error}") from error
    return len(trace["ops"])
