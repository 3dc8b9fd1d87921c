"""The calls of a worker: work on the shards of its range for the sidecar's own process.

A worker knows no rules, no clock, and only the records that it receives. If it is killed, the
results of answered calls remain, and the others are requested again.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from idlestate.backends.shards.planned_removals import to_numbers
from idlestate.retention.policy import Policies, Policy
from idlestate.sidecar.core.local_shard_executor import LocalShardExecutor
from idlestate.sidecar.core.segment_keys import is_segment, run_of
from idlestate.sidecar.core.shard_executor import SentRows, StepResult
from idlestate.sidecar.protocol.call_table import CallTable, Header, Parts
from idlestate.sidecar.protocol.declaration import Declaration
from idlestate.sidecar.protocol.message import Message
from idlestate.sidecar.protocol.transfers import Stage, stream_of
from idlestate.sidecar.protocol.worker_ranges import OF_SHARDS
from idlestate.sidecar.stores.store import Store
from idlestate.sidecar.workers.worker_messages import (
    parameters_of,
    shards_of_parts,
    stepped_message,
)

WRITING = ("prepare", "take", "edit", "close", "merge")
"""The calls that write; they also remove the values whose keys are passed as `gone`."""


class WorkerCalls:
    """The calls of one worker.

    Args:
        store: the store of the runs of its range.
        stage: receives the rows of clients.
        cache_bytes: the cache of each operator's tables.
    """

    def __init__(self, store: Store, stage: Stage, cache_bytes: int) -> None:
        self._store = store
        self._stage = stage
        self._cache_bytes = cache_bytes
        self._executors: dict[str, tuple[Any, LocalShardExecutor]] = {}
        self.table = CallTable(
            {
                "prepare": self._prepare,
                "take": self._take,
                "edit": self._edit,
                "rows": self._rows,
                "cuts": self._cuts,
                "first_ends": self._first_ends,
                "close": self._close,
                "merge": self._merge,
                "horizons": self._horizons,
                "look_up": self._look_up,
                "explain": self._explain,
                "lives": self._lives,
                "value": self._value,
                "remove": self._remove,
                "keep": self._keep,
                "size": self._size,
            },
            most_bytes=None,
        )

    def _executor(self, header: Header) -> LocalShardExecutor:
        facts = header["declaration"]
        known = self._executors.get(facts["uid"])
        if known is None or known[0] != facts:
            declaration = Declaration.from_json(facts)
            executor = LocalShardExecutor(self._store, declaration, self._cache_bytes, self._stage)
            known = self._executors[facts["uid"]] = (facts, executor)
        return known[1]

    def _prepare(self, header: Header, parts: Parts) -> Message:
        ranges = (0,) if header["has_packets"] else ()
        shards = shards_of_parts(header, parts)
        stepped, (chunks,) = self._executor(header).prepare(
            header["handle"], ranges, shards, parameters_of(header["parameters"])
        )
        return self._kept(header, stepped, chunks=chunks)

    def _take(self, header: Header, parts: Parts) -> Message:
        ranges = (0,) if header["has_values"] else ()
        shards = shards_of_parts(header, parts)
        keys = dict(zip(shards, header["keys"], strict=True))
        return self._kept(
            header, self._executor(header).take(header["handle"], ranges, shards, keys)
        )

    def _edit(self, header: Header, parts: Parts) -> Message:
        shards, handle = shards_of_parts(header, parts), header["handle"]
        data = parts[-1] if handle is None else self._handed(handle)
        edit = self._executor(header).edit(header["kind"], SentRows(data))
        return self._kept(header, edit.apply(shards, parameters_of(header["parameters"])))

    def _rows(self, header: Header, _parts: Parts) -> Message:
        sent = SentRows(self._handed(header["handle"]))
        return Message({}, (self._executor(header).edit(header["kind"], sent).rows(),))

    def _cuts(self, header: Header, parts: Parts) -> Message:
        ((at, shard),) = shards_of_parts(header, parts).items()
        parameters = parameters_of(header["parameters"])
        return Message({"cuts": self._executor(header).cuts(shard, at, parameters, header["rows"])})

    def _first_ends(self, header: Header, parts: Parts) -> Message:
        shards = shards_of_parts(header, parts)
        ends = self._executor(header).first_ends(shards, parameters_of(header["parameters"]))
        return Message({"ends": list(ends.items())})

    def _close(self, header: Header, parts: Parts) -> Message:
        ((at, shard),) = shards_of_parts(header, parts).items()
        parameters = parameters_of(header["parameters"])
        return self._kept(header, {at: self._executor(header).close(shard, at, parameters)})

    def _merge(self, header: Header, parts: Parts) -> Message:
        ((at, shard),) = shards_of_parts(header, parts).items()
        parameters = parameters_of(header["parameters"])
        return self._kept(header, {at: self._executor(header).merge(shard, at, parameters)})

    def _horizons(self, header: Header, parts: Parts) -> Message:
        policies, others = (_policies(each) for each in (header["policies"], header["others"]))
        shards = shards_of_parts(header, parts)
        found = self._executor(header).horizons(shards, policies, others, header["now_ms"])
        return Message({"horizons": to_numbers(found)})

    def _look_up(self, header: Header, parts: Parts) -> Message:
        policy = Policy.from_json(header["policy"])
        shards = shards_of_parts(header, parts)
        return Message({}, (stream_of(self._executor(header).look_up(parts[-1], shards, policy)),))

    def _explain(self, header: Header, parts: Parts) -> Message:
        policies, shards = _policies(header["policies"]), shards_of_parts(header, parts)
        details = self._executor(header).explain(parts[-1], shards, policies, header["now_ms"])
        return Message({"details": details.to_json()})

    def _lives(self, header: Header, parts: Parts) -> Message:
        ((at, shard),) = shards_of_parts(header, parts).items()
        policies = _policies(header["policies"])
        lives, following = self._executor(header).lives(shard, at, policies, header["since"])
        return Message({"next": following}, (stream_of(lives),))

    def _value(self, header: Header, _parts: Parts) -> Message:
        value = self._store.get(header["key"])
        return Message({}, () if value is None else (value,))

    def _remove(self, header: Header, _parts: Parts) -> Message:
        self._write({}, header["keys"])
        return Message({})

    def _keep(self, _header: Header, parts: Parts) -> Message:
        """Remove all values that are not named."""
        named = set(parts[0].decode().split("\n"))
        gone = [key for kind in OF_SHARDS for key, _ in self._store.scan(kind) if key not in named]
        if gone:  # a start on a full disk writes nothing
            self._store.write(dict.fromkeys(gone))
        return Message({"removed": len(gone)})

    def _size(self, _header: Header, _parts: Parts) -> Message:
        store = self._store
        return Message(
            {
                "bytes": store.bytes_on_disk(),
                "is_broken": store.is_broken,
                "properties": dict(store.properties()),
            }
        )

    def _handed(self, handle: str) -> bytes:
        """The rows of a write, which must be complete."""
        ((data,),) = self._stage.packets(handle).values()
        return data

    def _kept(self, header: Header, stepped: dict[int, StepResult], **facts: Any) -> Message:
        """Write the result of a step before it is returned."""
        values = {key: value for each in stepped.values() for key, value in each.values.items()}
        self._write(values, header.get("gone", ()))
        return stepped_message(stepped, **facts)

    def _write(self, values: Mapping[str, bytes], gone: Iterable[str]) -> None:
        self._store.write({**values, **dict.fromkeys(gone)})
        runs = {run_of(key) for key in gone if is_segment(key)}
        for _, executor in self._executors.values():
            executor.forget(dict.fromkeys(runs, 0))


def _policies(facts: Sequence[Header]) -> Policies:
    left, right = map(Policy.from_json, facts)
    return left, right
