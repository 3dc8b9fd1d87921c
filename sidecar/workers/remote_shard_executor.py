"""Executes steps on shards whose runs are stored by worker processes, each with one range.

A worker's result is durable there before the record that names it is written here, and is removed
when no record names it any more. So writing one record commits the results of all workers. Results
that were never named are removed, at the latest by `Workers.keep` at the next start.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from idlestate.backends.shards.key_details import KeyDetails
from idlestate.backends.shards.planned_removals import Horizon, added_up, of_numbers
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.retention.policy import Policies, Policy
from idlestate.sidecar.core.shard_executor import Edit, SentRows, Shards, StepParameters, StepResult
from idlestate.sidecar.protocol.declaration import Declaration
from idlestate.sidecar.protocol.errors import BusyError, DoesNotFitError, GoneError, SidecarError
from idlestate.sidecar.protocol.input_rows import fit_rows, fit_write, read_rows
from idlestate.sidecar.protocol.message import Message
from idlestate.sidecar.protocol.rows_by_range import split_rows
from idlestate.sidecar.protocol.transfers import stream_of
from idlestate.sidecar.protocol.worker_ranges import range_of, shard_of
from idlestate.sidecar.workers.worker_messages import parameters_header, shard_parts, stepped_of


class Link(Protocol):
    """The link to one worker."""

    def call(self, name: str, header: Mapping[str, Any], *parts: bytes) -> Message:
        """Make a call and return its answer.

        Raises:
            BusyError: the worker is being restarted.
            SidecarError: it reports an error.
        """

    def remove(self, keys: Iterable[str]) -> None:
        """Have values removed, now or later."""


class RemoteShardExecutor:
    """`ShardExecutor` over links to workers.

    Args:
        declaration: the operator.
        links: the workers, by range.
        pool: makes calls to several workers at the same time.
    """

    def __init__(
        self, declaration: Declaration, links: Sequence[Link], pool: ThreadPoolExecutor
    ) -> None:
        self._declaration = declaration
        self._spec = declaration.spec()
        self._links = links
        self._pool = pool
        self._facts = {"declaration": declaration.to_json()}

    def prepare(
        self, handle: str, ranges: Sequence[int], shards: Shards, parameters: StepParameters
    ) -> tuple[dict[int, StepResult], tuple[int, ...]]:
        """See `ShardExecutor`."""
        calls = {}
        for at, mine in self._by_range(shards).items():
            header = {
                "handle": handle,
                "has_packets": at in ranges,
                "parameters": parameters_header(parameters),
            }
            calls[at] = self._stepping(at, "prepare", header, mine)
        answers = self._at_once(calls)
        stepped = {
            at: each for answer in answers.values() for at, each in stepped_of(answer).items()
        }
        chunks = tuple(
            answers[at].header["chunks"] if at in answers else 0 for at in range(len(self._links))
        )
        return {at: stepped[at] for at in shards}, chunks

    def take(
        self,
        handle: str,
        ranges: Sequence[int],
        shards: Shards,
        keys: Mapping[int, Sequence[str]],
    ) -> dict[int, StepResult]:
        """See `ShardExecutor`."""
        calls = {}
        for at, mine in self._by_range(shards).items():
            named = [list(keys.get(each, ())) for each in mine]
            header = {"handle": handle, "has_values": at in ranges, "keys": named}
            calls[at] = self._stepping(at, "take", header, mine)
        answers = self._at_once(calls)
        return {at: each for answer in answers.values() for at, each in stepped_of(answer).items()}

    def edit(self, kind: str, sent: SentRows) -> Edit:
        """See `ShardExecutor`."""
        if sent.handle is not None:
            if sent.of != len(self._links) or not all(0 <= at < sent.of for at in sent.ranges):
                raise GoneError("the sidecar has other ranges now")
            return _HandedEdit(self, kind, sent.ranges, sent.handle)
        rows = read_rows(self._declaration.uid, sent.data)
        rows = fit_write(self._declaration, self._spec, kind, rows)
        parts = {at: stream_of(part) for at, part in self._split(rows).items()}
        return _RemoteEdit(self, kind, rows, parts)

    def cuts(self, shard: ShardRecord, at: int, parameters: StepParameters, rows: int) -> list[int]:
        """See `ShardExecutor`."""
        cuts: list[int] = self._of_shard("cuts", shard, at, parameters, rows=rows).header["cuts"]
        return cuts

    def first_ends(self, shards: Shards, parameters: StepParameters) -> dict[int, int]:
        """See `ShardExecutor`."""
        header = {"parameters": parameters_header(parameters)}
        calls = {
            at: self._stepping(at, "first_ends", header, mine)
            for at, mine in self._by_range(shards).items()
        }
        answers = self._at_once(calls).values()
        return {at: end_ms for answer in answers for at, end_ms in answer.header["ends"]}

    def close(self, shard: ShardRecord, at: int, parameters: StepParameters) -> StepResult:
        """See `ShardExecutor`."""
        return stepped_of(self._of_shard("close", shard, at, parameters))[at]

    def merge(self, shard: ShardRecord, at: int, parameters: StepParameters) -> StepResult:
        """See `ShardExecutor`."""
        return stepped_of(self._of_shard("merge", shard, at, parameters))[at]

    def horizons(
        self, shards: Shards, policies: Policies, others: Policies, now_ms: int
    ) -> tuple[Horizon, ...]:
        """See `ShardExecutor`."""
        header = {"policies": _facts(policies), "others": _facts(others), "now_ms": now_ms}
        calls = {
            at: self._stepping(at, "horizons", header, mine)
            for at, mine in self._by_range(shards).items()
        }
        answers = self._at_once(calls).values()
        return added_up(of_numbers(each.header["horizons"]) for each in answers)

    def look_up(self, keys: bytes, shards: Shards, policy: Policy) -> pa.Table:
        """See `ShardExecutor`."""
        uid = self._declaration.uid
        wanted = fit_rows(uid, read_rows(uid, keys), dict(self._spec.keys))
        by_range = self._by_range(shards)
        calls = {}
        for at, part in self._split(wanted).items():
            mine = {i: shard for i, shard in by_range[at].items() if shard.current.live}
            calls[at] = self._stepping(
                at, "look_up", {"policy": policy.to_json()}, mine, stream_of(part)
            )
        found = [ShardTable.empty(self._spec).lives(policy)]
        for answer in self._at_once(calls).values():
            found.append(pa.ipc.open_stream(answer.parts[0]).read_all())
        return pa.concat_tables(found)

    def explain(self, key: bytes, shards: Shards, policies: Policies, now_ms: int) -> KeyDetails:
        """See `ShardExecutor`."""
        uid = self._declaration.uid
        parts = self._split(fit_rows(uid, read_rows(uid, key), dict(self._spec.keys)))
        if len(parts) != 1:
            raise DoesNotFitError(f"operator {uid!r}: ask for one key")
        ((at, part),) = parts.items()
        header = {"policies": _facts(policies), "now_ms": now_ms}
        mine = self._by_range(shards)[at]
        answer = self._stepping(at, "explain", header, mine, stream_of(part))()
        return KeyDetails.from_json(answer.header["details"])

    def lives(
        self, shard: ShardRecord, at: int, policies: Policies, since: int
    ) -> tuple[pa.Table, int | None]:
        """See `ShardExecutor`."""
        header = {"policies": _facts(policies), "since": since}
        answer = self._stepping(self._range_of(at), "lives", header, {at: shard})()
        return pa.ipc.open_stream(answer.parts[0]).read_all(), answer.header["next"]

    def value(self, key: str) -> bytes | None:
        """See `ShardExecutor`."""
        parts = self._link_of(shard_of(key)).call("value", {"key": key}).parts
        return parts[0] if parts else None

    def forget(self, runs: Mapping[str, int]) -> None:
        """See `ShardExecutor`; a worker drops removed runs from its cache."""

    def elsewhere(self, keys: Iterable[str]) -> Set[str]:
        """See `ShardExecutor`: all values."""
        return set(keys)

    def remove(self, keys: Iterable[str]) -> None:
        """See `ShardExecutor`; it happens later."""
        by_range: dict[int, list[str]] = {}
        for key in keys:
            by_range.setdefault(self._range_of(shard_of(key)), []).append(key)
        for at, mine in by_range.items():
            self._links[at].remove(mine)

    def discard(self, stepped: Iterable[StepResult]) -> None:
        """See `ShardExecutor`."""
        self.remove(key for each in stepped for key in each.made)

    def gathered(self, kind: str, handle: str, ranges: Iterable[int]) -> bytes:
        """All rows of a write from its ranges, converted to the operator's columns."""
        header = self._facts | {"kind": kind, "handle": handle}
        calls = {at: lambda at=at: self._links[at].call("rows", header) for at in ranges}
        tables = [
            pa.ipc.open_stream(answer.parts[0]).read_all()
            for answer in self._at_once(calls).values()
        ]
        return stream_of(pa.concat_tables(tables))

    def edited(
        self,
        kind: str,
        parts: Mapping[int, bytes],
        handle: str | None,
        shards: Shards,
        parameters: StepParameters,
    ) -> dict[int, StepResult]:
        """The results of a write for shards, range by range."""
        by_range = self._by_range(shards)
        header = {"kind": kind, "handle": handle, "parameters": parameters_header(parameters)}
        calls = {
            at: self._stepping(at, "edit", header, by_range.get(at, {}), part)
            for at, part in parts.items()
        }
        answers = self._at_once(calls)
        return {at: each for answer in answers.values() for at, each in stepped_of(answer).items()}

    def _at_once(self, calls: Mapping[int, Callable[[], Message]]) -> dict[int, Message]:
        """Make a call to each range; either all resulting steps count or none."""
        if len(calls) == 1:
            return {at: call() for at, call in calls.items()}
        waiting = {at: self._pool.submit(call) for at, call in calls.items()}
        answers: dict[int, Message] = {}
        errors: list[SidecarError] = []
        for at, each in waiting.items():
            try:
                answers[at] = each.result()
            except SidecarError as error:
                errors.append(error)
        if errors:
            made = [key for each in answers.values() for key in _made(each)]
            self.remove(made)
            raise min(errors, key=lambda error: isinstance(error, (BusyError, GoneError)))
        return answers

    def _stepping(
        self, at: int, name: str, header: Mapping[str, Any], shards: Shards, *more: bytes
    ) -> Callable[[], Message]:
        numbers, parts = shard_parts(shards)
        header = {**self._facts, **header, "shards": numbers}
        return lambda: self._links[at].call(name, header, *parts, *more)

    def _of_shard(
        self, name: str, shard: ShardRecord, at: int, parameters: StepParameters, **more: Any
    ) -> Message:
        header = {"parameters": parameters_header(parameters), **more}
        return self._stepping(self._range_of(at), name, header, {at: shard})()

    def _split(self, rows: pa.Table) -> dict[int, pa.Table]:
        shards, ranges = self._declaration.shards, len(self._links)
        return split_rows(rows, self._spec.key_names, shards, ranges)

    def _by_range(self, shards: Shards) -> dict[int, dict[int, ShardRecord]]:
        found: dict[int, dict[int, ShardRecord]] = {}
        for at, shard in shards.items():
            found.setdefault(self._range_of(at), {})[at] = shard
        return found

    def _range_of(self, shard: int) -> int:
        return range_of(shard, self._declaration.shards, len(self._links))

    def _link_of(self, shard: int) -> Link:
        return self._links[self._range_of(shard)]


@dataclass(frozen=True, slots=True)
class _RemoteEdit:
    _executor: RemoteShardExecutor
    _kind: str
    _rows: pa.Table
    _parts: Mapping[int, bytes]

    def rows(self) -> bytes:
        return stream_of(self._rows)

    def apply(self, shards: Shards, parameters: StepParameters) -> dict[int, StepResult]:
        return self._executor.edited(self._kind, self._parts, None, shards, parameters)


@dataclass(frozen=True, slots=True)
class _HandedEdit:
    _executor: RemoteShardExecutor
    _kind: str
    _ranges: Sequence[int]
    _handle: str

    def rows(self) -> bytes:
        return self._executor.gathered(self._kind, self._handle, self._ranges)

    def apply(self, shards: Shards, parameters: StepParameters) -> dict[int, StepResult]:
        parts = dict.fromkeys(self._ranges, b"")
        return self._executor.edited(self._kind, parts, self._handle, shards, parameters)


def _facts(policies: Policies) -> list[dict[str, object]]:
    return [each.to_json() for each in policies]


def _made(answer: Message) -> list[str]:
    return [key for keys in answer.header.get("made", ()) for key in keys]
