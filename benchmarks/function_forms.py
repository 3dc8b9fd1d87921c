"""`process` without Spark: records per second of a function of one key and of many keys.

    function_forms.py [--quick]

Plays the same batches as `micro.py`, with `third_events.py` in each form: one key per call, many,
and both. Figures are of the step of all shards, by the processor time of this process; the ratio is
to one key per call.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from idlestate.backends.shards.function_state import FunctionState
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.functions.declared_states import states_of
from idlestate.functions.function import KeyedProcessFunction
from idlestate.pipeline.operator_spec import OperatorSpec
from idlestate.pipeline.process_arguments import with_function
from idlestate.retention.policy import Policy
from jobs import FULL, QUICK
from micro import Player, Stopwatch, operator, tasks_of
from recipes import Draw, Recipe, nothing_due
from third_events import Third, ThirdBatched, ThirdBoth

STEP = "advance, all shards"
BATCHES, WARM_UP = 5, 2


def spec_of(function: KeyedProcessFunction) -> OperatorSpec:
    """The operator of `third_events.with_process`."""
    output = pa.schema([("key", pa.string()), ("what", pa.string()), ("n", pa.int64())])
    kind = FunctionState("third", states_of(function), (), ((),), output)
    spec = replace(operator(Policy()), table=TableSpec((("key", pa.string()),), kind))
    return with_function(spec, function, "stop")


def main(argv: Sequence[str] | None = None) -> int:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small batches")
    scale = QUICK if parser.parse_args(argv).quick else FULL
    for draw in (Draw.UNIFORM, Draw.ZIPF):
        recipe = Recipe(draw=draw, rows=scale.rows, batches=BATCHES, ids=scale.ids)
        quiet_ms = nothing_due(recipe).max_ms
        batches = list(tasks_of(recipe))
        alone = 0.0
        for name, function in (
            ("one key per call", Third(quiet_ms)),
            ("many keys", ThirdBatched(quiet_ms)),
            ("both forms", ThirdBoth(quiet_ms)),
        ):
            watch = Stopwatch()
            with tempfile.TemporaryDirectory() as folder:
                player = Player(spec_of(function), Path(folder))
                for at, tasks in enumerate(batches):
                    player.play(at, tasks, watch)
            later_ms = watch.cpu_ms[STEP][WARM_UP:]
            rate = recipe.rows / statistics.median(later_ms) * 1000
            alone = alone or rate
            print(f"{draw:<8} {name:<17} {rate:10,.0f} records/s   {rate / alone:5.2f}x")
    return 0


if __name__ == "__main__":
    sys.exit(main())
