"""Calls with something else in place of a DataFrame, a session or a function."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from idlestate import (
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    co_process,
    configure,
    deduplicate,
    join,
    join_asof,
    over,
    process,
    retain,
    run_to_end,
    serve_metrics,
)
from idlestate.errors import RefusedError

WRONG: Any = 5
FRAME: Any = pd.DataFrame({"user": ["a"]})
DAY: dict[str, Any] = {"key": "user", "uid": "x", "event_time": "at"}
FUNCTION: dict[str, Any] = {"key": "user", "uid": "x", "output": "user string"}


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: retain(WRONG, aggregates={"n": "count"}, **DAY), "events is of type int; pass a"),
        (lambda: retain(FRAME, aggregates={"n": "count"}, **DAY), r"pandas\S+DataFrame; pass a Sp"),
        (lambda: deduplicate(WRONG, **DAY), "events is of type int; pass a Spark DataFrame"),
        (lambda: over(WRONG, columns={"n": "count"}, **DAY), "events is of type int"),
        (lambda: process(WRONG, function=KeyedProcessFunction(), **FUNCTION), "events is of type"),
        (
            lambda: co_process(WRONG, FRAME, function=KeyedCoProcessFunction(), **FUNCTION),
            "left is of type int; pass a Spark DataFrame",
        ),
        (lambda: join(WRONG, FRAME, on="user", uid="x", event_time="at"), "left is of type int"),
        (
            lambda: join_asof(FRAME, WRONG, on="user", uid="x", event_time="at"),
            r"probes is of type pandas\S+DataFrame; pass a Spark DataFrame",
        ),
        (lambda: configure(WRONG), "spark is of type int; pass a SparkSession"),
        (lambda: serve_metrics(WRONG, 0), "spark is of type int; pass a SparkSession"),
        (lambda: run_to_end(WRONG), "start is of type int; pass a function"),
    ],
)
def test_an_argument_of_another_type_is_named(call: Callable[[], object], text: str) -> None:
    with pytest.raises(RefusedError, match=text):
        call()
