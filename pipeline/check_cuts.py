"""`check_cuts`: whether results depend on how records are divided into batches."""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from idlestate.errors import RefusedError
from idlestate.pipeline.function_harness import FunctionHarness
from idlestate.pipeline.retain_harness import OperatorHarness

Records = Sequence[Any]
Rows = Counter[str]
Make = Callable[[], OperatorHarness[Any]]


def check_cuts(make: Make, records: Records | pa.Table, *, runs: int = 50) -> None:
    """Divide records into batches in many ways, and compare what comes out.

    Each run feeds the records to a new harness, in the given order. They are cut at other places in
    each run, and a function starts anew before each batch, as after a restart. Compared are the
    rows and the lives that are open in the end; of the updates of one life only the last one. A
    function in both forms (`BatchedProcessFunction`) is called in each of them, and all must agree.

    Args:
        make: returns a new `FunctionHarness`, `CoFunctionHarness` or `RetainHarness`.
        records: as for `batch`.
        runs: how many divisions are tried, besides one batch and a batch for each record.

    Raises:
        AssertionError: results differ; the text has the fewest records for which they do.
        RefusedError: a record is late in some divisions, which changes results by itself, or
            `make` does not return a new harness.
    """
    given = records.to_pylist() if isinstance(records, pa.Table) else list(records)
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


def _forms(make: Make) -> list[Make]:
    """What makes harnesses that call a function in one of its forms; else just `make`."""
    made = make()
    if not isinstance(made, FunctionHarness):
        return [make]

    def of(form: str) -> Make:
        def make_one() -> OperatorHarness[Any]:
            harness = make()
            assert isinstance(harness, FunctionHarness)
            harness.use_form(form)
            return harness

        return make_one

    return [of(form) for form in made.forms]


def _cuts(n: int, number: int) -> list[int]:
    """Where to cut n records in a run; the same in every call. In run -2 nowhere."""
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
    """Rows and open lives."""
    harness = make()
    rows = []
    for batch in _batches(records, cuts):
        harness.restart()
        rows += harness.batch(batch)
    harness.restart()
    rows += harness.finish()
    return [_counted(_last(rows, harness.key_names)), _counted(harness.lives())]


def _last(rows: list[dict[str, Any]], keys: Sequence[str]) -> list[dict[str, Any]]:
    """Without updates that a later row of the life replaces, and without batch numbers."""
    shown: dict[Any, dict[str, Any]] = {}
    for number, row in enumerate(rows):
        life = (number,)
        if row.get("change") in ("update", "expire"):
            life = (*(row[name] for name in keys), row["created_at"])
        shown.pop(life, None)
        shown[life] = {name: value for name, value in row.items() if name != "batch_id"}
    return list(shown.values())


def _counted(rows: list[dict[str, Any]]) -> Rows:
    return Counter(repr({name: _rounded(value) for name, value in row.items()}) for row in rows)


def _rounded(value: Any) -> Any:
    """Floats without the last digits, which the order of additions decides."""
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
    """As few records, then as few cuts, as still make a difference."""

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
        first = "process_batch and process_element give different results"
        in_whole, in_parts = "of process_element", "of process_batch"
    lines = [first]
    for number, batch in enumerate(_batches(records, cuts)):
        lines += [f"batch {number}:", *(f"  {_shown(record)}" for record in batch)]
    for what, one, several in zip(("rows", "open lives"), whole, parts, strict=True):
        lines += [f"{what} only {in_whole}: {each}" for each in one - several]
        lines += [f"{what} only {in_parts}: {each}" for each in several - one]
    return "\n".join(lines)
