"""The calls of the data plane, except those that transfer bytes (`stage_calls`)."""

from collections.abc import Callable, Mapping
from contextlib import suppress

from idlestate.backends.runs.table_runs import LOWEST_HASH
from idlestate.backends.shards.row_counts import RowCounts
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.metrics.families import EXCHANGE_DURATION
from idlestate.metrics.samples import Samples, to_json
from idlestate.retention.policy import Policy, right_policy
from idlestate.sidecar.core.attempt import Attempt
from idlestate.sidecar.core.exchanges import Exchanges
from idlestate.sidecar.core.one_way_writes import Write
from idlestate.sidecar.core.operator import Operator
from idlestate.sidecar.core.operator_record import Owner
from idlestate.sidecar.core.operators import Host
from idlestate.sidecar.core.shard_executor import SentRows
from idlestate.sidecar.protocol.call_table import CallTable, Header, Parts, stage_calls
from idlestate.sidecar.protocol.declaration import Declaration, check_name
from idlestate.sidecar.protocol.errors import (
    DamagedDirectoryError,
    DoesNotFitError,
    UnknownOperatorError,
)
from idlestate.sidecar.protocol.message import PROTOCOL, Message
from idlestate.sidecar.protocol.transfers import CHUNK_BYTES, stream_of
from idlestate.timers.steady_clock import SteadyClock

_SWEEP_MS = 1000
_MOST_QUARANTINED = 100


class Calls:
    """Answers calls.

    Args:
        host: the operators.
        clock: the sidecar's clock.

    Attributes:
        table: the calls by name.
        exchanges: the current exchanges of tasks.
        samples: all metrics of the sidecar, for a driver that started it.
        next_ends_ms: by operator, when its next open life ends or has ended, for the same driver.
    """

    def __init__(self, host: Host, clock: SteadyClock) -> None:
        self._host = host
        self._clock = clock
        self._stage = host.placement.stage
        self.exchanges = Exchanges(clock)
        self.samples: Callable[[], Samples] = dict
        self.next_ends_ms: Callable[[], Mapping[str, int]] = dict
        own = {
            "hello": self._hello,
            "ranges": self._ranges,
            "declare": self._declare,
            "describe": self._describe,
            "begin": self._begin,
            "open": self._open,
            "records": self._records,
            "value": self._value,
            "finish": self._finish,
            "take": self._take,
            "close": self._close,
            "settle": self._settle,
            "final_sweep": self._final_sweep,
            "write": self._write,
            "claim": self._claim,
            "quarantined": self._quarantined,
            "plan": self._plan,
            "explain": self._explain,
            "get": self._get,
            "lives": self._lives,
            "expired": self._expired,
            "acknowledge": self._acknowledge,
            "figures": self._figures,
            "metrics": self._metrics,
            "next_ends": self._next_ends,
            "release": self._release,
            "drop": self._drop,
            "accept_clock": self._accept_clock,
        }
        self.table = CallTable({**(stage_calls(self._stage) if self._stage else {}), **own})

    def _operator(self, header: Header) -> Operator:
        return self._host[str(header["uid"])]

    def _hello(self, _header: Header, _parts: Parts) -> Message:
        return Message({"protocol": PROTOCOL, "operators": [each.state.uid for each in self._host]})

    def _ranges(self, _header: Header, _parts: Parts) -> Message:
        return Message({"places": list(self._host.placement.places)})

    def _declare(self, header: Header, _parts: Parts) -> Message:
        declaration = Declaration.from_json(header["declaration"])
        made = header.get("made")  # the operator should already exist
        if made is not None and not self._host.holds(declaration.uid, made):
            return Message({"made": None})
        query = header.get("query")  # the run that declares it
        found = self._host.declare(
            declaration,
            Policy.from_json(header["policy"]),
            Owner(**{name: str(value) for name, value in query.items()}) if query else None,
            made,
            right_policy(header),
        )
        return Message({"batch_id": found.record.committed, "made": found.record.made})

    def _describe(self, header: Header, _parts: Parts) -> Message:
        record = self._operator(header).record
        return Message(
            {"declaration": record.declaration.to_json(), "policy": record.policy.to_json()}
        )

    def _begin(self, header: Header, _parts: Parts) -> Message:
        found = self._operator(header)
        found.batches.begin(
            check_name("query", header["query_id"]),
            check_name("run", header["run_id"]),
            str(header["checkpoint"]),
        )
        return Message({"batch_id": found.record.committed})

    def _open(self, header: Header, _parts: Parts) -> Message:
        found = self._operator(header)
        facts = dict(header["attempt"])
        facts |= {"policy": Policy.from_json(facts["policy"]), "right": right_policy(facts)}
        facts["shards"] = tuple(int(each) for each in facts["shards"])
        if any(not 0 <= each < len(found.state.shards) for each in facts["shards"]):
            raise DoesNotFitError(f"operator {found.state.uid!r} has no such shard")
        attempt = Attempt(**facts)
        opened = found.batches.open(attempt)
        handle = self.exchanges.open(found.state.uid, attempt)
        places = list(self._host.placement.places)
        facts = {"t_ms": opened.t_ms, "version": opened.version + 1}
        return Message({"handle": handle, "places": places, **facts})

    def _finish(self, header: Header, _parts: Parts) -> Message:
        handle = str(header["handle"])
        exchange = self.exchanges.get(handle)
        if exchange.prepared is None:
            counts = {
                int(shard): {str(name): RowCounts(**each) for name, each in by_input.items()}
                for shard, by_input in header["counts"].items()
            }
            ranges = [int(at) for at in header["ranges"]]
            operator = self._host[exchange.uid]
            exchange.prepared = operator.batches.prepare(exchange.attempt, handle, ranges, counts)
        prepared = exchange.prepared
        return Message({"chunks": list(prepared.chunks), "figures": prepared.figures})

    def _records(self, header: Header, _parts: Parts) -> Message:
        """The records of a task's shards and the definition of their tables, for a step that the
        task executes itself.
        """
        exchange = self.exchanges.get(str(header["handle"]))
        operator = self._host[exchange.uid]
        shards = operator.batches.shards(exchange.attempt)
        definition = operator.record.declaration.definition.to_json()
        facts = {"shards": list(shards), "definition": definition}
        return Message(facts, tuple(each.encode() for each in shards.values()))

    def _value(self, header: Header, _parts: Parts) -> Message:
        """Some bytes of a segment, and its size."""
        uid, key, begin = str(header["uid"]), str(header["key"]), int(header["begin"])
        found = self._host[uid].state.executor.value(key) if key.startswith(f"s/{uid}/") else None
        if found is None:
            raise DamagedDirectoryError(f"{key[:200]} is missing: restore the sidecar's folder")
        return Message({"size": len(found)}, (found[begin : begin + CHUNK_BYTES],))

    def _take(self, header: Header, parts: Parts) -> Message:
        handle = str(header["handle"])
        exchange = self.exchanges.get(handle)
        if exchange.prepared is None:
            numbers = [int(shard) for shard in header["shards"]]
            shards = dict(zip(numbers, map(ShardRecord.decode, parts), strict=True))
            keys = dict(zip(numbers, header["keys"], strict=True))
            ranges = [int(at) for at in header["ranges"]]
            batches = self._host[exchange.uid].batches
            exchange.prepared = batches.take(exchange.attempt, handle, ranges, shards, keys)
        return Message({"figures": exchange.prepared.figures})

    def _close(self, header: Header, _parts: Parts) -> Message:
        closed = self.exchanges.close(str(header["handle"]))
        if closed is not None and closed.prepared is not None:
            with suppress(UnknownOperatorError):  # dropped in the meantime
                self._operator({"uid": closed.uid}).state.took(EXCHANGE_DURATION, closed.begun_s)
        if self._stage is not None:
            self._stage.close(str(header["handle"]))
        return Message({})

    def _settle(self, header: Header, _parts: Parts) -> Message:
        found = self._operator(header)
        found.batches.settle()
        record = found.record
        if record.stopped:
            raise DoesNotFitError(record.stopped)
        return Message(
            {
                "batch_id": record.committed,
                "open_batch": record.open.batch_id if record.open else None,
                "first_seq": found.first_seq,
                "next_seq": record.next_seq,
                "owed_ms": found.owed_ms,
                "inputs": {name: each.to_json() for name, each in found.inputs.items()},
            }
        )

    def _final_sweep(self, header: Header, _parts: Parts) -> Message:
        found = self._operator(header)
        if not found.state.is_event_time:
            raise DoesNotFitError("only bounded input in event time ends with a sweep")
        to_ms = found.due_ms(self._clock.now_ms())
        is_left = found.sweeper.sweep(to_ms, self._clock, _SWEEP_MS)
        return Message({"is_left": is_left, "next_seq": found.record.next_seq})

    def _write(self, header: Header, parts: Parts) -> Message:
        sent = SentRows(parts[0]) if parts else _handed_over(header["handed"])
        write = Write(
            writer=str(header["writer"]),
            session=str(header["session"]),
            seq=int(header["seq"]),
            write_id=str(header["write_id"]),
            kind=str(header["kind"]),
            sent=sent,
        )
        is_applied = self._operator(header).writes.take(write, self._clock.now_ms())
        return Message({"is_applied": is_applied})

    def _claim(self, header: Header, _parts: Parts) -> Message:
        name, claim_id = str(header["writer"]), check_name("claim", header["claim_id"])
        writer = self._operator(header).writes.claim(name, claim_id, self._clock.now_ms())
        return Message({"session": writer.session, "seq": writer.seq})

    def _quarantined(self, header: Header, _parts: Parts) -> Message:
        """Quarantined writes from a number on, in pages."""
        some: list[tuple[Header, bytes]] = []
        size = 0
        for facts, rows in self._operator(header).writes.quarantined.read(int(header["since"])):
            some.append((facts, rows))
            size += len(rows)
            if size >= CHUNK_BYTES or len(some) >= _MOST_QUARANTINED:
                break
        return Message({"writes": [facts for facts, _ in some]}, tuple(rows for _, rows in some))

    def _plan(self, header: Header, _parts: Parts) -> Message:
        policy = Policy.from_json(header["policy"])
        plan = self._operator(header).plan(policy, self._clock.now_ms(), right_policy(header))
        return Message({"plan": plan.to_message()})

    def _explain(self, header: Header, parts: Parts) -> Message:
        found = self._operator(header).explain(parts[0], self._clock.now_ms())
        return Message(
            {
                "now_ms": found.now_ms,
                "details": found.details.to_json(),
                "policy": found.policy.to_json(),
                "policy_version": found.policy_version,
                "right": found.right_policy and found.right_policy.to_json(),
                "chosen_by": found.policy.chosen_by,
            }
        )

    def _get(self, header: Header, parts: Parts) -> Message:
        found = self._operator(header)
        lives, batch_id = found.look_up(parts[0], self._clock.now_ms())
        facts = {"batch_id": batch_id, "keys": list(found.state.spec.key_names)}
        return Message(facts, (stream_of(lives),))

    def _lives(self, header: Header, _parts: Parts) -> Message:
        found, shard = self._operator(header), int(header["shard"])
        if not 0 <= shard < len(found.state.shards):
            return Message({"shards": len(found.state.shards)})
        batch_id = found.record.committed  # read before the look-up, so that it is never too new
        since = int(header.get("since", LOWEST_HASH))
        lives, following = found.lives(shard, self._clock.now_ms(), since)
        facts = {"shards": len(found.state.shards), "batch_id": batch_id, "next": following}
        return Message(facts, (stream_of(lives),))

    def _expired(self, header: Header, _parts: Parts) -> Message:
        found = self._operator(header)
        before = header.get("before")
        rows = found.expired(
            int(header["since"]),
            None if before is None else int(before),
            min(int(header["most"]), 100_000),
        )
        facts = {"next_seq": found.record.next_seq, "batch_id": found.record.committed}
        return Message(facts, () if rows is None else (stream_of(rows),))

    def _acknowledge(self, header: Header, _parts: Parts) -> Message:
        self._operator(header).acknowledge(header["consumer"], int(header["upto"]))
        return Message({})

    def _figures(self, header: Header, _parts: Parts) -> Message:
        batch_id, figures = self._operator(header).figures()
        return Message({"batch_id": batch_id, "figures": figures})

    def _metrics(self, _header: Header, _parts: Parts) -> Message:
        return Message({"samples": to_json(self.samples())})

    def _next_ends(self, _header: Header, _parts: Parts) -> Message:
        return Message({"next_ends_ms": dict(self.next_ends_ms())})

    def _release(self, header: Header, _parts: Parts) -> Message:
        self._operator(header).batches.release()
        return Message({})

    def _drop(self, header: Header, _parts: Parts) -> Message:
        self._host.drop(str(header["uid"]))
        return Message({})

    def _accept_clock(self, _header: Header, _parts: Parts) -> Message:
        divergence_ms = self._clock.divergence_ms
        self._clock.accept()
        return Message({"divergence_ms": divergence_ms})


def _handed_over(header: Header) -> SentRows:
    ranges = tuple(int(at) for at in header["ranges"])
    return SentRows(handle=str(header["handle"]), ranges=ranges, of=int(header["of"]))
