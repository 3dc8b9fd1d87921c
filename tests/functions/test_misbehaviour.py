"""Functions that do what no function should: the error says so, and nothing else happens."""

import subprocess
import sys
from typing import Any

import pytest

from idlestate import KeyedProcessFunction
from idlestate.errors import RefusedError
from tests.functions.test_function_errors import COUNT, Calls, harness, row
from tests.patience import PATIENCE_S

FORKS = """
import os, sys
from datetime import UTC, datetime
import pyarrow as pa
from idlestate import KeyedProcessFunction, Policy
from idlestate.testing import FunctionHarness

class Forking(KeyedProcessFunction):
    def process_element(self, row, ctx):
        child = os.fork()
        if child == 0:
            if row.what == "raise":
                raise ValueError(row.what)
            if row.what == "exit":
                sys.exit(3)
        else:
            _, status = os.waitpid(child, 0)
            yield row.what, os.waitstatus_to_exitcode(status)

harness = FunctionHarness(
    {"t": pa.timestamp("us", "UTC"), "what": pa.string()}, key="what", event_time="t",
    function=Forking(), output="what string, code int", policy=Policy(ttl="10s"))
moment = datetime(2025, 3, 3, tzinfo=UTC)
rows = harness.batch([{"t": moment, "what": what} for what in ("go on", "raise", "exit")])
print(sorted(row["what"] for row in rows), {row["code"] for row in rows})
"""


def test_a_process_that_a_function_forks_ends_with_its_call() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKS],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.stdout == "['exit', 'go on', 'raise'] {70}\n", done.stderr


def test_a_function_that_cannot_be_opened_is_named() -> None:
    class Closed(Calls):
        def open(self, ctx: Any) -> None:
            if self.what == "raise":
                raise OSError("no model")

    function = Closed("open")
    tested = harness(function)
    assert tested.batch([row(0)]) == [{"key": "k", "n": 1}]
    before = tested.lives()
    function.what = "raise"
    tested.restart()
    with pytest.raises(RefusedError, match=r"'harness': .*Closed\.open raised OSError: no model"):
        tested.batch([row(0, 1)])
    assert tested.lives() == before


def test_a_row_cannot_be_changed() -> None:
    class Changing(KeyedProcessFunction):
        def process_element(self, row: Any, ctx: Any) -> Any:
            row.n = 3

    with pytest.raises(RefusedError, match=r"Changing\.process_element raised AttributeError"):
        harness(Changing()).batch([row(1)])


def test_a_row_that_is_kept_stays_as_it_was_and_is_forgotten_with_the_batch() -> None:
    class Keeping(KeyedProcessFunction):
        count = COUNT
        last: Any = None

        def process_element(self, row: Any, ctx: Any) -> Any:
            ctx.state(self.count).update(row.n)
            yield ctx.key, self.last and self.last.n
            self.last = row

    tested = harness(Keeping())
    rows = [row(5, 1), row(6, 2), row(7, 3, "other"), row(8, 4)]
    found = [each["n"] for each in tested.batch(rows) if each["key"] == "k"]
    assert found in ([None, 5, 6], [7, 5, 6])  # keys come in no order that is promised
    assert tested.batch([row(9, 6)]) == [{"key": "k", "n": None}]


def fail(ctx: Any) -> None:
    raise ValueError("m" * 100_000)


@pytest.mark.parametrize(
    ("what", "text"),
    [
        (fail, "test_misbehaviour.py, line "),
        (lambda ctx: [("k",) * 100_000], "of 100000 values; output has 2: key, n"),
        (lambda ctx: [("k", "n" * 100_000)], "for column n of type int32"),
        (lambda ctx: ["t" * 100_000], "which is not a tuple"),
    ],
)
def test_long_messages_keys_and_values_are_cut(what: Any, text: str) -> None:
    with pytest.raises(RefusedError) as raised:
        harness(Calls(what)).batch([row(1, key="k" * 100_000)])
    said = str(raised.value)
    assert text in said
    assert said.endswith("correct the function and start the query again")
    assert len(said) < 2_000


def test_a_function_that_exits_in_open_is_named() -> None:
    class Leaving(Calls):
        def open(self, ctx: Any) -> None:
            if self.what == "raise":
                sys.exit(3)

    function = Leaving("open")
    tested = harness(function)
    function.what = "raise"
    tested.restart()
    with pytest.raises(RefusedError, match=r"'harness': .*Leaving\.open raised SystemExit: 3"):
        tested.batch([row(0)])


class Wordless(Exception):  # noqa: N818 - it is a value too
    def __str__(self) -> str:
        raise RuntimeError("in str")

    __repr__ = __str__


class Mute(KeyedProcessFunction):
    """Raises or yields what cannot be shown."""

    def __init__(self, what: str) -> None:
        self.what = what

    def process_element(self, row: Any, ctx: Any) -> Any:
        if self.what == "raise":
            raise Wordless
        yield Wordless() if self.what == "row" else (ctx.key, Wordless())


@pytest.mark.parametrize(
    ("what", "text"),
    [("raise", "raised Wordless: <Word"), ("row", "yielded <Word"), ("value", "yielded <Word")],
)
@pytest.mark.parametrize("on_error", ["stop", "reject"])
def test_what_cannot_be_shown_as_text_has_an_error_all_the_same(
    what: str, text: str, on_error: str
) -> None:
    tested = harness(Mute(what), on_error=on_error, rejects=True)
    said = f"{text}less whose text raised RuntimeError>"
    if on_error == "stop":
        with pytest.raises(RefusedError, match=rf"Mute\.process_element {said}.*, for key 'k' at"):
            tested.batch([row(0)])
    else:
        (failed,) = tested.batch([row(0)])
        assert said in failed["rejected"]
