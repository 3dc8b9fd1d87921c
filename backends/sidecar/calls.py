"""The calls of the data plane: a name and a message in, a message out; knows no network.

Every call may be made again when its answer was lost. Rows travel as Arrow streams.
"""

import threading
from collections.abc import Callable
from typing import Any

from idlestate.backends.sidecar.batches import Attempt
from idlestate.backends.sidecar.declaration import Declaration, check_name
from idlestate.backends.sidecar.direct import Write
from idlestate.backends.sidecar.errors import BusyError, DoesNotFitError
from idlestate.backends.sidecar.exchanges import CHUNK_BYTES, Exchanges, in_chunks, stream_of
from idlestate.backends.sidecar.host import Host
from idlestate.backends.sidecar.message import Message
from idlestate.backends.sidecar.operator import Operator
from idlestate.retention.policy import Policy
from idlestate.timers.steady_clock import SteadyClock

PROTOCOL = 1
MAX_CALL_BYTES = 4 * CHUNK_BYTES
_SWEEP_MS = 1000

Header = dict[str, Any]


class Calls:
    """Answers calls.

    Args:
        host: the operators.
        clock: whose time counts.
    """

    def __init__(self, host: Host, clock: SteadyClock) -> None:
        self._host = host
        self._clock = clock
        self.exchanges = Exchanges(clock)
        self._is_draining = False
        self._busy = 0
        self._idle = threading.Condition()
        self.by_name: dict[str, Callable[[Header, tuple[bytes, ...]], Message]] = {
            "hello": self._hello,
            "declare": self._declare,
            "describe": self._describe,
            "begin": self._begin,
            "open": self._open,
            "chunk": self._chunk,
            "finish": self._finish,
            "fetch": self._fetch,
            "close": self._close,
            "settle": self._settle,
            "final_sweep": self._final_sweep,
            "write": self._write,
            "last": self._last,
            "get": self._get,
            "lives": self._lives,
            "expired": self._expired,
            "acknowledge": self._acknowledge,
            "figures": self._figures,
            "release": self._release,
            "drop": self._drop,
            "accept_clock": self._accept_clock,
        }

    def answer(self, name: str, body: bytes) -> bytes:
        """Answer one call.

        Raises:
            SidecarError: what is wrong, and what to change.
        """
        if len(body) > MAX_CALL_BYTES:
            raise DoesNotFitError(
                f"a call of {len(body) >> 20} MB; send at most {MAX_CALL_BYTES >> 20} MB at a time"
            )
        call = self.by_name.get(name)
        if call is None:
            raise DoesNotFitError(f"there is no call {name[:80]!r}")
        message = Message.decode(body)
        with self._idle:
            if self._is_draining:
                raise BusyError("the sidecar is stopping; it will be back")
            self._busy += 1
        try:
            return call(message.header, message.parts).encode()
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise DoesNotFitError(f"call {name} cannot be understood: {error!r}") from error
        finally:
            with self._idle:
                self._busy -= 1
                self._idle.notify_all()

    def drain(self, timeout_s: float) -> bool:
        """Take no more calls, and wait for those under way; whether all have ended."""
        with self._idle:
            self._is_draining = True
            return self._idle.wait_for(lambda: not self._busy, timeout=timeout_s)

    def _operator(self, header: Header) -> Operator:
        return self._host[str(header["uid"])]

    def _hello(self, _header: Header, _parts: tuple[bytes, ...]) -> Message:
        return Message({"protocol": PROTOCOL, "operators": [each.state.uid for each in self._host]})

    def _declare(self, header: Header, _parts: tuple[bytes, ...]) -> Message:
        declaration = Declaration.from_json(header["declaration"])
        found = self._host.declare(declaration, Policy.from_json(header["policy"]))
        return Message({"batch_id": found.record.committed})

    def _describe(self, header: Header, _parts: tuple[bytes, ...]) -> Message:
        record = self._operator(header).record
        return Message(
            {"declaration": record.declaration.to_json(), "policy": record.policy.to_json()}
        )

    def _begin(self, header: Header, _parts: tuple[bytes, ...]) -> Message:
        found = self._operator(header)
        found.batches.begin(
            check_name("query", header["query_id"]),
            check_name("run", header["run_id"]),
            str(header["checkpoint"]),
        )
        return Message({"batch_id": found.record.committed})

    def _open(self, header: Header, _parts: tuple[bytes, ...]) -> Message:
        found = self._operator(header)
        facts = dict(header["attempt"])
        facts["policy"] = Policy.from_json(facts["policy"])
        facts["shards"] = tuple(int(each) for each in facts["shards"])
        if any(not 0 <= each < len(found.state.shards) for each in facts["shards"]):
            raise DoesNotFitError(f"operator {found.state.uid!r} has no such shard")
        attempt = Attempt(**facts)
        opened = found.batches.open(attempt)
        handle = self.exchanges.open(found.state.uid, attempt)
        return Message({"handle": handle, "t_ms": opened.t_ms})

    def _chunk(self, header: Header, parts: tuple[bytes, ...]) -> Message:
        shard, packet, place = (int(each) for each in header["at"])
        self.exchanges.add(str(header["handle"]), (shard, packet, place), parts[0])
        return Message({})

    def _finish(self, header: Header, _parts: tuple[bytes, ...]) -> Message:
        exchange = self.exchanges.get(str(header["handle"]))
        if exchange.prepared is None:
            counts = {
                int(shard): {str(name): int(number) for name, number in each.items()}
                for shard, each in header["counts"].items()
            }
            operator = self._host[exchange.uid]
            exchange.prepared = operator.batches.prepare(
                exchange.attempt, exchange.packets(), counts
            )
            exchange.reply = tuple(in_chunks(exchange.prepared.updates))
            exchange.parts, exchange.size = {}, 0
        facts = {"chunks": len(exchange.reply), "figures": exchange.prepared.figures}
        return Message(facts, exchange.reply[:1])

    def _fetch(self, header: Header, _parts: tuple[bytes, ...]) -> Message:
        exchange = self.exchanges.get(str(header["handle"]))
        return Message({}, (exchange.reply[int(header["at"])],))

    def _close(self, header: Header, _parts: tuple[bytes, ...]) -> Message:
        self.exchanges.close(str(header["handle"]))
        return Message({})

    def _settle(self, header: Header, _parts: tuple[bytes, ...]) -> Message:
        found = self._operator(header)
        found.batches.settle()
        record = found.record
        if record.stopped:
            raise DoesNotFitError(record.stopped)
        return Message({"batch_id": record.committed, "next_seq": record.next_seq})

    def _final_sweep(self, header: Header, _parts: tuple[bytes, ...]) -> Message:
        found = self._operator(header)
        if not found.state.is_event_time:
            raise DoesNotFitError("only bounded input in event time ends with a sweep")
        to_ms = found.final_sweep_ms()
        is_left = found.sweeper.sweep(to_ms, self._clock, _SWEEP_MS)
        return Message({"is_left": is_left, "next_seq": found.record.next_seq})

    def _write(self, header: Header, parts: tuple[bytes, ...]) -> Message:
        write = Write(str(header["writer"]), int(header["seq"]), str(header["kind"]), parts[0])
        is_new = self._operator(header).writes.take(write, self._clock.now_ms())
        return Message({"is_new": is_new})

    def _last(self, header: Header, _parts: tuple[bytes, ...]) -> Message:
        return Message({"seq": self._operator(header).writes.last(str(header["writer"]))})

    def _get(self, header: Header, parts: tuple[bytes, ...]) -> Message:
        lives, batch_id = self._operator(header).look_up(parts[0], self._clock.now_ms())
        return Message({"batch_id": batch_id}, (stream_of(lives),))

    def _lives(self, header: Header, _parts: tuple[bytes, ...]) -> Message:
        found, shard = self._operator(header), int(header["shard"])
        if not 0 <= shard < len(found.state.shards):
            return Message({"shards": len(found.state.shards)})
        parts = tuple(stream_of(part) for part in found.lives(shard, self._clock.now_ms()))
        return Message(
            {"shards": len(found.state.shards), "batch_id": found.record.committed}, parts
        )

    def _expired(self, header: Header, _parts: tuple[bytes, ...]) -> Message:
        found = self._operator(header)
        before = header.get("before")
        rows = found.expired(
            int(header["since"]),
            None if before is None else int(before),
            min(int(header["most"]), 100_000),
        )
        facts = {"next_seq": found.record.next_seq, "batch_id": found.record.committed}
        return Message(facts, () if rows is None else (stream_of(rows),))

    def _acknowledge(self, header: Header, _parts: tuple[bytes, ...]) -> Message:
        self._operator(header).acknowledge(header["consumer"], int(header["upto"]))
        return Message({})

    def _figures(self, header: Header, _parts: tuple[bytes, ...]) -> Message:
        found = self._operator(header)
        return Message({"batch_id": found.record.committed, "figures": found.figures()})

    def _release(self, header: Header, _parts: tuple[bytes, ...]) -> Message:
        self._operator(header).batches.release()
        return Message({})

    def _drop(self, header: Header, _parts: tuple[bytes, ...]) -> Message:
        self._host.drop(str(header["uid"]))
        return Message({})

    def _accept_clock(self, _header: Header, _parts: tuple[bytes, ...]) -> Message:
        divergence_ms = self._clock.divergence_ms
        self._clock.accept()
        return Message({"divergence_ms": divergence_ms})
