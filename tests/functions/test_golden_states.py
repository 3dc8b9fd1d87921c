"""States of functions against recordings of Flink: what reads return, and what is stored."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from idlestate import KeyedProcessFunction
from idlestate.functions.declared_states import OpenFunction
from idlestate.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from tests.golden_files import FLINK

GOLDEN = Path(__file__).parents[1] / "golden" / "ttl_core.jsonl.gz"
ACCUMULATOR = pa.struct([("total", pa.int64()), ("count", pa.int64())])
NAMES = {"addAll": "add_all", "putAll": "put_all"}
# Flink's answers depend on what is physically there, or are those of iterators.
OTHER_HERE = {"isEmpty", "get_first", "iterator_remove"}


class Mean:
    def create_accumulator(self) -> dict[str, int]:
        return {"total": 0, "count": 0}

    def add(self, value: int, accumulator: dict[str, int]) -> dict[str, int]:
        return {"total": accumulator["total"] + value, "count": accumulator["count"] + 1}

    def get_result(self, accumulator: dict[str, int]) -> list[int]:
        return [accumulator["total"], accumulator["count"]]

    def merge(self, left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
        raise NotImplementedError


def traces() -> list[dict[str, Any]]:
    with gzip.open(GOLDEN, "rt") as lines:
        found = [json.loads(line) for line in lines]
    return [
        each
        for each in found
        if each["backend"] == "hashmap" and each["visibility"] == "NeverReturnExpired"
    ]


def descriptor(trace: dict[str, Any]) -> Any:
    ttl = StateTtlConfig(ttl_ms=trace["ttl_ms"], update_type=FLINK[trace["update_type"]])
    common: dict[str, Any] = {"name": "state", "ttl": ttl}
    return {
        "value": lambda: ValueStateDescriptor(value_type=pa.string(), **common),
        "list": lambda: ListStateDescriptor(value_type=pa.int64(), **common),
        "strlist": lambda: ListStateDescriptor(value_type=pa.string(), **common),
        "map": lambda: MapStateDescriptor(key_type=pa.string(), value_type=pa.int64(), **common),
        "reducing": lambda: ReducingStateDescriptor(
            value_type=pa.int64(), reduce=lambda a, b: a + b, **common
        ),
        "aggregating": lambda: AggregatingStateDescriptor(
            value_type=ACCUMULATOR, aggregate=Mean(), **common
        ),
    }[trace["kind"]]()


def plain(result: Any) -> Any:
    return json.loads(json.dumps(result))


@pytest.mark.golden
@pytest.mark.parametrize("trace", traces(), ids=lambda each: each["trace"])
def test_states_return_what_flink_returns(trace: dict[str, Any]) -> None:
    function = KeyedProcessFunction()
    function.state = descriptor(trace)  # type: ignore[attr-defined]
    opened = OpenFunction(function)
    cell: Any = opened.cells["state"]
    stored: dict[str, Any] = {}
    compared = 0
    for step in trace["ops"]:
        opened.context.timestamp_ms = step["t"]
        cell.content = stored.get(step["key"])
        op = step["op"]
        if "error" in step or None in step["args"] or op in OTHER_HERE:
            # What Flink did counts for the steps that follow, so the key is left out from here on.
            if op not in {"isEmpty", "get_first"}:
                break
            continue
        result = getattr(cell, NAMES.get(op, op))(*step["args"])
        stored[step["key"]] = cell.content
        if "result" in step:
            if op in {"entries", "keys", "values"}:
                result = sorted(result)
            expected = step["result"]
            if op == "get" and trace["kind"] in {"list", "strlist"}:
                expected = expected or []
            assert plain(result) == expected, step
            compared += 1
    assert compared
