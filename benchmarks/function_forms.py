"""`process` without Spark: records per second of a function of one key and of many keys.

    function_forms.py [--quick]

Plays the same batches as `micro.py`, with `third_events.py` in each form: one key per call, many,
and both; then with two inputs, which take turns. Figures are of the step of all shards, by the
processor time of this process; the ratio is to one key per call.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from idlestate.backends.shards.function_state import FunctionState
from idlestate.backends.shards.operator_kind import INPUT_NUMBER
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.functions.co_function import KeyedCoProcessFunction
from idlestate.functions.declared_states import opened_copy
from idlestate.functions.function import KeyedProcessFunction
from idlestate.pipeline.operator_spec import OperatorSpec
from idlestate.pipeline.process_arguments import with_function
from idlestate.retention.policy import Policy
from micro import Player, Stopwatch, operator, tasks_of
from recipes import Draw, Recipe, nothing_due
from scale import FULL, QUICK
from third_events import (
    Third,
    ThirdBatched,
    ThirdBoth,
    ThirdOfTwo,
    ThirdOfTwoBatched,
    ThirdOfTwoBoth,
)

STEP = "advance, all shards"
BATCHES, WARM_UP = {FULL: 5, QUICK: 2}, {FULL: 2, QUICK: 1}
FORMS = ("one key per call", "many keys", "both forms")
FUNCTIONS: dict[str, tuple[Callable[[int], KeyedProcessFunction], ...]] = {
    "one input": (Third, ThirdBatched, ThirdBoth),
    "two inputs": (ThirdOfTwo, ThirdOfTwoBatched, ThirdOfTwoBoth),
}


def spec_of(function: KeyedProcessFunction) -> OperatorSpec:
    """The operator of `third_events.with_process`."""
    output = pa.schema([("key", pa.string()), ("what", pa.string()), ("n", pa.int64())])
    is_co = isinstance(function, KeyedCoProcessFunction)
    number = ((INPUT_NUMBER, pa.int8()),) if is_co else ()
    columns: tuple[tuple[str, ...], ...] = ((), ()) if is_co else ((),)
    kind = FunctionState("third", opened_copy(function).columns(), number, columns, output)
    keys = (("key", pa.string()),)
    table = TableSpec(keys, kind, number)
    spec = replace(operator(Policy()), table=table, inputs=(*keys, *number))
    return with_function(spec, function, "stop")


def numbered(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of two inputs in turn."""
    number = pa.array(np.arange(len(rows)) % 2, pa.int8())
    return pa.RecordBatch.from_arrays(
        [*rows.columns, number], names=[*rows.schema.names, INPUT_NUMBER]
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small batches")
    scale = QUICK if parser.parse_args(argv).quick else FULL
    for draw in (Draw.UNIFORM, Draw.ZIPF):
        recipe = Recipe(draw=draw, rows=scale.rows, batches=BATCHES[scale], ids=scale.ids)
        quiet_ms = nothing_due(recipe).max_ms
        batches = [[numbered(rows) for rows in tasks] for tasks in tasks_of(recipe)]
        for inputs, functions in FUNCTIONS.items():
            alone = 0.0
            for form, function in zip(FORMS, functions, strict=True):
                watch = Stopwatch()
                with tempfile.TemporaryDirectory() as folder:
                    player = Player(spec_of(function(quiet_ms)), Path(folder))
                    for at, tasks in enumerate(batches):
                        player.play(at, tasks, watch)
                later_ms = watch.cpu_ms[STEP][WARM_UP[scale] :]
                rate = recipe.rows / statistics.median(later_ms) * 1000
                alone = alone or rate
                shown = f"{draw:<8} {inputs:<10} {form:<17}"
                print(f"{shown} {rate:10,.0f} records/s   {rate / alone:5.2f}x")
    return 0


if __name__ == "__main__":
    sys.exit(main())
