"""`check_cuts`: whether results depend on how records are divided into batches."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from idlestate.config.loading import Config, load_config
from idlestate.errors import RefusedError
from idlestate.functions.co_function import KeyedCoProcessFunction
from idlestate.functions.function import KeyedProcessFunction
from idlestate.pipeline.co_function_harness import CoFunctionHarness
from idlestate.pipeline.file_harness import columns_of, file_harness
from idlestate.pipeline.function_harness import FunctionHarness
from idlestate.pipeline.harness_forms import HarnessOfForms
from idlestate.pipeline.retain_harness import OperatorHarness
from idlestate.pipeline.two_inputs import LEFT, RIGHT
from idlestate.retention.added_columns import EXPIRE, UPDATE

Records = Sequence[Any]
Rows = Counter[str]
Make = Callable[[], OperatorHarness[Any]]


def check_cuts(
    subject: Make | OperatorHarness[Any] | KeyedProcessFunction | Config | str | Path,
    records: Records | pa.Table,
    *,
    uid: str | None = None,
    runs: int = 50,
    **arguments: Any,
) -> None:
    """Divide records into batches in many ways, and compare the results.

    Each run feeds the records to a new operator, in the given order. Each run divides them at
    different places, and a function is created again before each batch, as after a restart. The
    output rows and the lives that are open at the end are compared. Of the updates of a life, only
    the last one is compared; updates of sessions are ignored. A function in both forms
    (`BatchedProcessFunction`) is called in each form, and all results must be equal. No JVM is
    started.

    Args:
        subject: a pipeline of a configuration file, as the file's path; a function of `process` or
            `co_process`; an unused `FunctionHarness`, `CoFunctionHarness` or `RetainHarness`; or a
            function that returns a new one.
        records: as for `batch`. For a pipeline or function with two inputs, they are pairs of the
            input's name and a row.
        uid: which pipeline, if the file has several.
        runs: the number of divisions to try, besides one batch and one batch per record.
        arguments: for a function, the arguments of its harness, such as `key`, `output` and
            `event_time`. Without `schema` (`left` and `right`), columns have the types of the
            records.

    Raises:
        AssertionError: results differ; the text shows a smallest set of records for which they do.
        RefusedError: a record is late in some divisions, which changes results by itself; or the
            subject cannot be used.
        ConfigError: the file is invalid.
    """
    if not isinstance(records, pa.Table | Iterable):
        raise RefusedError(f"records {records!r} is not valid; pass a list, or an Arrow table")
    is_number = isinstance(runs, int)
    if not (is_number and runs >= 0):
        raise RefusedError(f"runs {runs!r} is not valid; pass a whole number of 0 or more")
    given = records.to_pylist() if isinstance(records, pa.Table) else list(records)
    make = _maker(subject, given, uid, arguments)
    if make() is make():
        raise RefusedError("make returns the same harness twice; return a new one in each call")
    _refuse_late(make, given)
    forms = _forms(make)
    whole = _run(forms[0], given, [])
    for number in range(-2, runs):
        cuts = _cuts(len(given), number)
        for form in forms:
            if _run(form, given, cuts) != whole:
                raise AssertionError(
                    _report(forms[0], form, *_smallest(forms[0], form, given, cuts))
                )


def _maker(
    subject: object, records: Records, uid: str | None, arguments: Mapping[str, Any]
) -> Make:
    """A function that creates new harnesses of a subject.

    Raises:
        RefusedError: `check_cuts` does not accept the subject.
    """
    if isinstance(subject, KeyedProcessFunction):
        return _of_function(subject, records, dict(arguments))
    if arguments:
        raise RefusedError(f"{', '.join(arguments)}: pass these with a function alone")
    if isinstance(subject, str | Path):
        subject = load_config(subject)
    if isinstance(subject, Config):
        config, chosen = subject, _chosen(subject, uid)
        return lambda: file_harness(config, chosen, records)
    if uid is not None:
        raise RefusedError(f"uid {uid!r}: pass it with a configuration file alone")
    if isinstance(subject, OperatorHarness):
        return subject.anew
    if callable(subject) and not isinstance(subject, type):
        return subject
    raise RefusedError(
        f"{subject!r} cannot be checked; pass the path of a configuration file, an object of a "
        "function's class, a harness, or a function that makes one"
    )


def _of_function(
    function: KeyedProcessFunction, records: Records, arguments: dict[str, Any]
) -> Make:
    missing = [name for name in ("key", "output") if name not in arguments]
    if missing:
        raise RefusedError(
            f"check_cuts lacks {' and '.join(missing)}, which the harness of a function needs; "
            "pass key='user', output='user string, n long', for example"
        )
    if isinstance(function, KeyedCoProcessFunction):
        for name in (LEFT, RIGHT):
            rows = [row for side, row in records if side == name]
            arguments.setdefault(name, columns_of(rows))
        return lambda: CoFunctionHarness(function=function, **arguments)
    arguments.setdefault("schema", columns_of(records))
    return lambda: FunctionHarness(function=function, **arguments)


def _chosen(config: Config, uid: str | None) -> str:
    names = ", ".join(config.pipelines)
    if uid is None and len(config.pipelines) == 1:
        return next(iter(config.pipelines))
    if uid is None:
        raise RefusedError(f"{config.file} defines {names or 'no pipelines'}; pass uid with one")
    if uid not in config.pipelines:
        raise RefusedError(f"{config.file} does not define pipeline {uid!r}; it defines {names}")
    return uid


def _forms(make: Make) -> list[Make]:
    """Functions that create harnesses, one per form of a user function; otherwise only `make`."""
    made = make()
    if not isinstance(made, HarnessOfForms):
        return [make]

    def of(form: str) -> Make:
        def make_one() -> OperatorHarness[Any]:
            harness = make()
            assert isinstance(harness, HarnessOfForms)
            harness.use_form(form)
            return harness

        return make_one

    return [of(form) for form in made.forms]


def _cuts(n: int, number: int) -> list[int]:
    """Where to cut n records in a run; deterministic. Run -2 has no cuts."""
    if number < 0:
        return list(range(1, n)) if number == -1 else []
    rare = 1 + number % 5
    return [at for at in range(1, n) if _chance(number, at) % (rare + 1) == 0]


def _chance(*of: int) -> int:
    text = ",".join(map(str, of)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def _batches(records: Records, cuts: Sequence[int]) -> list[Records]:
    return [records[begin:end] for begin, end in pairwise([0, *cuts, len(records)])]


def _run(make: Make, records: Records, cuts: Sequence[int]) -> list[Rows]:
    """Run a harness; return its rows and open lives."""
    harness = make()
    rows = []
    for batch in _batches(records, cuts):
        harness.restart()
        rows += harness.batch(batch)
    harness.restart()
    rows += harness.finish()
    if harness.is_of_sessions:  # early results contain an end that the session may outgrow
        rows = [row for row in rows if row["change"] != UPDATE]
    return [_counted(_last(rows, harness.key_names)), _counted(harness.lives())]


def _last(rows: list[dict[str, Any]], keys: Sequence[str]) -> list[dict[str, Any]]:
    """The rows without batch numbers, and without updates that a later row of the life replaces."""
    shown: dict[Any, dict[str, Any]] = {}
    for number, row in enumerate(rows):
        life = (number,)
        if row.get("change") in (UPDATE, EXPIRE):
            life = (*(row[name] for name in keys), row["created_at"])
        shown.pop(life, None)
        shown[life] = {name: value for name, value in row.items() if name != "batch_id"}
    return list(shown.values())


def _counted(rows: list[dict[str, Any]]) -> Rows:
    return Counter(repr({name: _rounded(value) for name, value in row.items()}) for row in rows)


def _rounded(value: Any) -> Any:
    """Floats without the last digits, which depend on the order of additions."""
    return float(f"{value:.12g}") if isinstance(value, float) else value


def _refuse_late(make: Make, records: Records) -> None:
    harness = make()
    for number, record in enumerate(records):
        before = harness.late_rows
        harness.batch([record])
        if harness.late_rows > before:
            raise RefusedError(
                f"record {number} ({_shown(record)}) is late if each record is a batch of its own, "
                "so results differ in any case; pass a longer delay, or records in order of time"
            )


def _smallest(
    whole: Make, make: Make, records: Records, cuts: Sequence[int]
) -> tuple[Records, list[int]]:
    """The fewest records, then the fewest cuts, that still make a difference."""

    def differs(some: Records, at: Sequence[int]) -> bool:
        return _run(make, some, at) != _run(whole, some, [])

    found, kept = list(records), list(cuts)
    number = 0
    while number < len(found):
        fewer = found[:number] + found[number + 1 :]
        at = sorted({each - (each > number) for each in kept} - {0, len(fewer)})
        if differs(fewer, at):
            found, kept = fewer, at
        else:
            number += 1
    for cut in list(kept):
        at = [each for each in kept if each != cut]
        if differs(found, at):
            kept = at
    return found, kept


def _shown(record: Any) -> str:
    """A row, or the name of its input and the row."""
    return repr(dict(record) if isinstance(record, Mapping) else record)


def _report(whole_by: Make, make: Make, records: Records, cuts: Sequence[int]) -> str:
    whole, parts = _run(whole_by, records, []), _run(make, records, cuts)
    first = "results depend on how records are divided into batches"
    in_whole, in_parts = "if all records are one batch", "in these batches"
    if make is whole_by and not cuts:
        first = (
            "results differ between two runs of the same batch: they depend on more than records"
        )
        in_whole, in_parts = "in the first run", "in the second run"
    elif not cuts or _run(make, records, []) != whole:
        first = "the methods of one key and of many keys give different results"
        in_whole, in_parts = "of the methods of one key", "of the methods of many keys"
    lines = [first]
    for number, batch in enumerate(_batches(records, cuts)):
        lines += [f"batch {number}:", *(f"  {_shown(record)}" for record in batch)]
    for what, one, several in zip(("rows", "open lives"), whole, parts, strict=True):
        lines += [f"{what} only {in_whole}: {each}" for each in one - several]
        lines += [f"{what} only {in_parts}: {each}" for each in several - one]
    return "\n".join(lines)
