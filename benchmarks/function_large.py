"""Functions with large maps and lists: milliseconds of a batch that uses one entry of each.

    function_large.py [--quick]

Each batch has one record for each of the keys. `in rows` stores every map whole in the row of its
key; `in a table` is what functions do. Figures are processor time of this process, with packing.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from idlestate import KeyedProcessFunction, Policy
from idlestate.functions import large_states
from idlestate.state import ListStateDescriptor, MapStateDescriptor
from idlestate.testing import FunctionHarness

START = datetime(2025, 3, 3, tzinfo=UTC)
ROUNDS = 5
ALL_IN_ROWS = 1 << 40


class OneEntry(KeyedProcessFunction):
    """Fills its states, or uses one entry of them."""

    entries = MapStateDescriptor(name="m", key_type=pa.string(), value_type=pa.int64())
    elements = ListStateDescriptor(name="l", value_type=pa.int64())

    def process_element(self, row: Any, ctx: Any) -> None:
        """As the record says."""
        if row.op == "fill":
            ctx.state(self.entries).put_all({f"item-{at:06d}": at for at in range(row.n)})
        elif row.op == "fill list":
            ctx.state(self.elements).add_all(range(row.n))
        elif row.op == "put":
            ctx.state(self.entries).put(f"item-{row.n:06d}", row.n)
        elif row.op == "get":
            ctx.state(self.entries).get(f"item-{row.n:06d}")
        elif row.op == "read all":
            ctx.state(self.entries).entries()
        else:
            ctx.state(self.elements).add(row.n)


class Played:
    """A harness with keys that have large states."""

    def __init__(self, keys: int, size: int) -> None:
        """Fill the states, a few keys at a time."""
        schema = {"key": pa.string(), "t": pa.timestamp("us", "UTC"), "op": pa.string()}
        self._harness = FunctionHarness(
            {**schema, "n": pa.int64()},
            key="key",
            function=OneEntry(),
            output="key string",
            event_time="t",
            policy=Policy(ttl="365d"),
        )
        self._second = 0
        self._keys = [f"customer-{number:011d}" for number in range(keys)]
        some = max(1, 100_000 // size)
        for first in range(0, keys, some):
            self.ms("fill", size, self._keys[first : first + some])
            self.ms("fill list", size, self._keys[first : first + some])

    def ms(self, op: str, n: int, keys: Sequence[str] | None = None) -> float:
        """The processor time of a batch."""
        self._second += 1
        t = START + timedelta(seconds=self._second)
        rows = [{"key": key, "t": t, "op": op, "n": n} for key in keys or self._keys]
        begin = time.process_time()
        self._harness.batch(rows)
        return (time.process_time() - begin) * 1000


def main(argv: Sequence[str] | None = None) -> int:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer keys")
    keys = 20 if parser.parse_args(argv).quick else 200
    for size in (100, 1_000, 10_000):
        before = dict[str, float]()
        for name, limit in (("in rows", ALL_IN_ROWS), ("in a table", large_states.ROW_BYTES)):
            with patch.object(large_states, "ROW_BYTES", limit):
                played = Played(keys, size)
                for op in ("put", "get", "append", "read all"):
                    ms = statistics.median(played.ms(op, at) for at in range(ROUNDS))
                    ratio = before.setdefault(op, ms) / ms
                    what = f"{op}, {keys:,} keys of {size:,} entries"
                    print(f"{what:<40} {name:<11} {ms:10,.1f} ms   {ratio:6.2f}x", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
