"""States of a function, beside the same calls on the library's states on runs.

    function_states.py [--quick]

Each batch has two records per key. Figures are records per second by the processor time of this
process; the ratio is to the library. Those of functions also contain what the library does not do:
packing, the division of records into lives, and output.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from idlestate import KeyedProcessFunction, Policy
from idlestate.state import MapStateDescriptor, ValueStateDescriptor, open_backend
from idlestate.state.backend import KeyedStateBackend
from idlestate.testing import FunctionHarness

START = datetime(2025, 3, 3, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)
LATER_MS = 3_600_000
ROUNDS, WARM_UP = 6, 2
SCHEMA = {"key": pa.string(), "t": pa.timestamp("us", "UTC")}
SEEN = ValueStateDescriptor(name="seen", value_type=pa.int64())
PAGES = MapStateDescriptor(name="pages", key_type=pa.string(), value_type=pa.int64())


class Counts(KeyedProcessFunction):
    """Counts the records of each key."""

    seen = SEEN

    def process_element(self, row: Any, ctx: Any) -> None:  # noqa: ARG002
        """One more."""
        state = ctx.state(SEEN)
        state.update((state.value() or 0) + 1)


class CountsUntilLater(Counts):
    """The same, with a timer that is set again by each record."""

    def process_element(self, row: Any, ctx: Any) -> None:
        """One more."""
        super().process_element(row, ctx)
        ctx.timer("later", ctx.timestamp_ms + LATER_MS)

    def on_timer(self, name: str | None, ctx: Any) -> None:
        """Never called here."""


class CountsOfPages(KeyedProcessFunction):
    """Counts the records of each key by page."""

    pages = PAGES

    def process_element(self, row: Any, ctx: Any) -> None:  # noqa: ARG002
        """One more."""
        state = ctx.state(PAGES)
        state.put("home", (state.get("home") or 0) + 1)


def function_s(function: KeyedProcessFunction, keys: list[str]) -> float:
    """Seconds of a batch with a function."""
    harness = FunctionHarness(
        SCHEMA,
        key="key",
        function=function,
        output="n bigint",
        event_time="t",
        policy=Policy(ttl="30d"),
        in_order=False,
    )
    spent_s = []
    for at in range(ROUNDS):
        times = pa.array([START + timedelta(seconds=at)] * len(keys), SCHEMA["t"])
        rows = pa.table({"key": keys, "t": times})
        began_s = time.process_time()
        harness.batch(rows)
        spent_s.append(time.process_time() - began_s)
    return statistics.median(spent_s[WARM_UP:])


Calls = Callable[[int], object]
"""The calls for a record with this time, on the states of the current key."""


def library_s(calls_on: Callable[[KeyedStateBackend], Calls], keys: list[str]) -> float:
    """Seconds of a batch with the library: one fetch, the calls, one commit."""
    spent_s = []
    with (
        tempfile.TemporaryDirectory() as folder,
        open_backend("runs", Path(folder) / "state") as backend,
    ):
        calls = calls_on(backend)
        for at in range(ROUNDS):
            began_s = time.process_time()
            backend.fetch(pa.array(keys))
            for key in keys:
                backend.set_current_key(key)
                calls(START_MS + at * 1000)
            backend.commit()
            spent_s.append(time.process_time() - began_s)
    return statistics.median(spent_s[WARM_UP:])


def counts(backend: KeyedStateBackend) -> Calls:
    """The calls of `Counts`."""
    state = backend.get_state(SEEN)
    return lambda _: state.update((state.value() or 0) + 1)


def counts_until_later(backend: KeyedStateBackend) -> Calls:
    """The calls of `CountsUntilLater`."""
    count = counts(backend)
    timers = backend.timer_service("later", lambda _: None, lambda _: None)

    def calls(t_ms: int) -> None:
        count(t_ms)
        timers.delete_event_time_timer(None, t_ms - 1000 + LATER_MS)
        timers.register_event_time_timer(None, t_ms + LATER_MS)

    return calls


def counts_of_pages(backend: KeyedStateBackend) -> Calls:
    """The calls of `CountsOfPages`."""
    state = backend.get_state(PAGES)
    return lambda _: state.put("home", (state.get("home") or 0) + 1)


FORMS = {
    "value": (Counts(), counts),
    "value and timer": (CountsUntilLater(), counts_until_later),
    "map entry": (CountsOfPages(), counts_of_pages),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small batches")
    count = 2_000 if parser.parse_args(argv).quick else 100_000
    keys = [f"customer-{at:09d}" for at in range(count)] * 2
    for name, (function, calls_on) in FORMS.items():
        mine, library = (
            len(keys) / spent_s
            for spent_s in (function_s(function, keys), library_s(calls_on, keys))
        )
        shown = f"{name:<16} function {mine:9,.0f}   library {library:9,.0f} records/s"
        print(f"{shown}   {mine / library:5.2f}x")
    return 0


if __name__ == "__main__":
    sys.exit(main())
