"""Who is measured with keyed state: its backends, a plain dict, raw rocksdict, and Redis.

All have the same calls, `None` where a contestant has nothing of the kind. A batch is an Arrow
array of keys; what is read comes back as an Arrow array.
"""

import heapq
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from rocksdict import Options, Rdict, WriteBatch

from idlestate.retention.policy import TimeDomain
from idlestate.retention.ttl_config import StateTtlConfig
from idlestate.state.backend import KeyedStateBackend
from idlestate.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)

LONG = pa.int64()
HOUR_MS = 3_600_000
FIELD = "x"
SOON = 10**9

Call = Callable[..., Any] | None


def numbers(batch: pa.Array) -> pa.Array:
    """A value for each key."""
    return pa.array(range(len(batch)), LONG)


class Contestant:
    """The calls, all missing."""

    update: Call = None
    value: Call = None
    map_put: Call = None
    map_get: Call = None
    append: Call = None
    register: Call = None
    fire: Call = None
    put_many: Call = None
    get_many: Call = None
    map_put_many: Call = None
    map_get_many: Call = None
    append_many: Call = None
    register_many: Call = None
    take: Call = None

    def begin(self, keys: Any) -> None:
        """Single calls for these keys follow."""

    def end(self) -> None:
        """A batch is over: its work has to be where it would survive."""

    def processor_s(self) -> float:
        """Processor time spent outside this process."""
        return 0.0


class Keyed(Contestant):
    """A backend of idlestate."""

    def __init__(self, backend: KeyedStateBackend, ttl: StateTtlConfig | None) -> None:
        on = "plain" if ttl is None else "ttl"
        self.backend = backend
        self.values = backend.get_state(
            ValueStateDescriptor(name=f"v {on}", value_type=LONG, ttl=ttl)
        )
        self.entries = backend.get_state(
            MapStateDescriptor(name=f"m {on}", key_type=pa.string(), value_type=LONG, ttl=ttl)
        )
        self.items = backend.get_state(
            ListStateDescriptor(name=f"l {on}", value_type=LONG, ttl=ttl)
        )
        self.timers = backend.timer_service(f"t {on}", lambda _: None, lambda _: None)
        self.put_many = lambda batch: self.values.put_many(batch, numbers(batch))
        self.get_many = self.values.get_many
        self.begin, self.end = backend.fetch, backend.commit

    def update(self, key: str) -> None:
        self.backend.set_current_key(key)
        self.values.update(7)

    def value(self, key: str) -> Any:
        self.backend.set_current_key(key)
        return self.values.value()

    def map_put(self, key: str) -> None:
        self.backend.set_current_key(key)
        self.entries.put(FIELD, 7)

    def map_get(self, key: str) -> Any:
        self.backend.set_current_key(key)
        return self.entries.get(FIELD)

    def append(self, key: str) -> None:
        self.backend.set_current_key(key)
        self.items.add(7)

    def register(self, key: str, at_ms: int) -> None:
        self.backend.set_current_key(key)
        self.timers.register_event_time_timer(None, at_ms)

    def fire(self) -> int:
        return self.timers.advance_watermark(SOON)

    def map_put_many(self, batch: pa.Array) -> None:
        self.entries.put_many(batch, [FIELD] * len(batch), numbers(batch))

    def map_get_many(self, batch: pa.Array) -> pa.Array:
        return self.entries.get_many(batch, [FIELD] * len(batch))

    def append_many(self, batch: pa.Array) -> None:
        self.items.add_many(batch, numbers(batch))

    def register_many(self, batch: pa.Array, times_ms: Any) -> None:
        self.timers.register_many(TimeDomain.EVENT, batch, None, times_ms)

    def take(self) -> int:
        taken = 0
        while count := len(self.timers.take_due(TimeDomain.EVENT, SOON, 50_000).keys):
            taken += count
            self.end()
        return taken


class PlainDict(Contestant):
    """Dicts, and a heap of timers."""

    def __init__(self) -> None:
        self._values: dict[str, int] = {}
        self._entries: dict[str, dict[str, int]] = {}
        self._items: dict[str, list[int]] = {}
        self._timers: list[tuple[int, str]] = []
        self.value = self._values.get

    def update(self, key: str) -> None:
        self._values[key] = 7

    def map_put(self, key: str) -> None:
        self._entries.setdefault(key, {})[FIELD] = 7

    def map_get(self, key: str) -> Any:
        return self._entries[key].get(FIELD)

    def append(self, key: str) -> None:
        self._items.setdefault(key, []).append(7)

    def register(self, key: str, at_ms: int) -> None:
        heapq.heappush(self._timers, (at_ms, key))

    def fire(self) -> int:
        count = len(self._timers)
        while self._timers:
            heapq.heappop(self._timers)
        return count

    def put_many(self, batch: pa.Array) -> None:
        self._values.update(zip(batch.to_pylist(), numbers(batch).to_pylist(), strict=True))

    def get_many(self, batch: pa.Array) -> pa.Array:
        return pa.array(map(self._values.get, batch.to_pylist()), LONG)

    def map_put_many(self, batch: pa.Array) -> None:
        for key, number in zip(batch.to_pylist(), numbers(batch).to_pylist(), strict=True):
            self._entries.setdefault(key, {})[FIELD] = number

    def map_get_many(self, batch: pa.Array) -> pa.Array:
        return pa.array([self._entries[key].get(FIELD) for key in batch.to_pylist()], LONG)

    def append_many(self, batch: pa.Array) -> None:
        for key, number in zip(batch.to_pylist(), numbers(batch).to_pylist(), strict=True):
            self._items.setdefault(key, []).append(number)


class RawRocksDB(Contestant):
    """rocksdict without anything of ours: the key's bytes, eight bytes of value."""

    def __init__(self, folder: Path) -> None:
        self._raw = Rdict(str(folder), Options(raw_mode=True))
        self._appended = 0

    def update(self, key: str) -> None:
        self._raw.put(key.encode(), b"12345678")

    def value(self, key: str) -> Any:
        return self._raw.get(key.encode())

    def map_put(self, key: str) -> None:
        self._raw.put(f"{key}/{FIELD}".encode(), b"12345678")

    def map_get(self, key: str) -> Any:
        return self._raw.get(f"{key}/{FIELD}".encode())

    def append(self, key: str) -> None:
        self._appended += 1
        self._raw.put(f"{key}/{self._appended}".encode(), b"12345678")

    def _put(self, rows: Iterator[bytes], batch: pa.Array) -> None:
        writes = WriteBatch(raw_mode=True)
        for row, number in zip(rows, numbers(batch).to_pylist(), strict=True):
            writes.put(row, number.to_bytes(8, "big"))
        self._raw.write(writes)

    def _get(self, rows: list[bytes]) -> pa.Array:
        return pa.array([int.from_bytes(row, "big") for row in self._raw.get(rows)], LONG)

    def put_many(self, batch: pa.Array) -> None:
        self._put((key.encode() for key in batch.to_pylist()), batch)

    def get_many(self, batch: pa.Array) -> pa.Array:
        return self._get([key.encode() for key in batch.to_pylist()])

    def map_put_many(self, batch: pa.Array) -> None:
        self._put((f"{key}/{FIELD}".encode() for key in batch.to_pylist()), batch)

    def map_get_many(self, batch: pa.Array) -> pa.Array:
        return self._get([f"{key}/{FIELD}".encode() for key in batch.to_pylist()])

    def append_many(self, batch: pa.Array) -> None:
        self._appended += 1
        self._put((f"{key}/{self._appended}".encode() for key in batch.to_pylist()), batch)

    def close(self) -> None:
        self._raw.close()


class Redis(Contestant):
    """Redis on a Unix socket; everything expires, batches are pipelines."""

    def __init__(self, client: Any, pid: int) -> None:
        self._client = client
        self._pid = pid

    def processor_s(self) -> float:
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100  # user and system, in ticks of 10 ms

    def update(self, key: str) -> None:
        self._client.set(key, 7, px=HOUR_MS)

    def value(self, key: str) -> Any:
        return self._client.get(key)

    def map_put(self, key: str) -> None:
        self._piped([key], lambda pipe, each: pipe.hset(f"m{each}", FIELD, 7), "m")

    def map_get(self, key: str) -> Any:
        return self._client.hget(f"m{key}", FIELD)

    def append(self, key: str) -> None:
        self._piped([key], lambda pipe, each: pipe.rpush(f"l{each}", 7), "l")

    def register(self, key: str, at_ms: int) -> None:
        self._client.zadd("t", {f"{at_ms} {key}": at_ms})

    def fire(self) -> int:
        fired = 0
        while due := self._client.zpopmin("t", 1000):
            fired += len(due)
        return fired

    def _piped(self, keys: list[str], act: Callable[[Any, str], Any], kind: str) -> None:
        pipe = self._client.pipeline(transaction=False)
        for key in keys:
            act(pipe, key)
            pipe.pexpire(kind + key, HOUR_MS)
        pipe.execute()

    def put_many(self, batch: pa.Array) -> None:
        pipe = self._client.pipeline(transaction=False)
        for key, number in zip(batch.to_pylist(), numbers(batch).to_pylist(), strict=True):
            pipe.set(key, number, px=HOUR_MS)
        pipe.execute()

    def get_many(self, batch: pa.Array) -> pa.Array:
        return pa.array([int(each) for each in self._client.mget(batch.to_pylist())], LONG)

    def map_put_many(self, batch: pa.Array) -> None:
        act = lambda pipe, key: pipe.hset(f"m{key}", FIELD, 7)  # noqa: E731
        self._piped(batch.to_pylist(), act, "m")

    def map_get_many(self, batch: pa.Array) -> pa.Array:
        pipe = self._client.pipeline(transaction=False)
        for key in batch.to_pylist():
            pipe.hget(f"m{key}", FIELD)
        return pa.array([int(each) for each in pipe.execute()], LONG)

    def append_many(self, batch: pa.Array) -> None:
        self._piped(batch.to_pylist(), lambda pipe, key: pipe.rpush(f"l{key}", 7), "l")


@contextmanager
def redis_server(folder: Path) -> Iterator[Redis | None]:
    """A Redis of its own on a Unix socket, None where there is none to start."""
    program = shutil.which("redis-server")
    if program is None:
        yield None
        return
    import redis  # noqa: PLC0415 - only where there is a server

    folder.mkdir()
    place = folder / "socket"
    options = ["--port", "0", "--unixsocket", str(place), "--save", "", "--appendonly", "no"]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(  # noqa: S603 - its path is looked up, its options are ours
            [program, *options, "--dir", str(folder)], stdout=log
        )
    client = redis.Redis(unix_socket_path=str(place))
    try:
        while server.poll() is None:
            with suppress(redis.ConnectionError):
                client.ping()
                break
        yield Redis(client, server.pid)
    finally:
        client.close()
        server.terminate()
        server.wait()
