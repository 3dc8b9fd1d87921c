"""The arguments of `process`: the function, its columns and its output."""

import copy
from collections.abc import Container, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from idlestate.backends.shards.function_state import FunctionState
from idlestate.backends.shards.operator_kind import INPUT_NUMBER
from idlestate.errors import RefusedError
from idlestate.functions.bound_function import BoundFunction
from idlestate.functions.co_function import KeyedCoProcessFunction
from idlestate.functions.declared_states import opened_copy
from idlestate.functions.errors import said_by
from idlestate.functions.function import KeyedProcessFunction
from idlestate.functions.function_forms import form_of, overrides
from idlestate.functions.process_step import ProcessStep
from idlestate.pipeline.arguments import Arguments
from idlestate.pipeline.operator_checks import Columns
from idlestate.pipeline.operator_spec import OperatorSpec
from idlestate.pipeline.output_schema import output_schema
from idlestate.retention.added_columns import INPUT, REJECTED
from idlestate.retention.policy import Policy, TimeDomain


def function_state(
    columns: Columns, function: object, output: object, used: object, *, rejects: bool
) -> FunctionState:
    """The kind of a `process` operator.

    Args:
        columns: the input.
        function, output: as in `process`.
        used: the columns that the function receives; None: all of simple types.
        rejects: whether reject rows are emitted too.

    Raises:
        RefusedError: an argument is not valid.
    """
    given = columns.given
    if isinstance(function, KeyedCoProcessFunction):
        raise given.refused("function is for two inputs; pass it to co_process")
    names = given_columns(given, "columns", used, tuple(columns.types), columns.types)
    return _state(columns, function, KeyedProcessFunction, output, (names,), rejects=rejects)


def co_function_state(
    columns: Columns,
    function: object,
    output: object,
    inputs: Sequence[tuple[str, ...]],
    *,
    rejects: bool,
) -> FunctionState:
    """The kind of a `co_process` operator.

    Args:
        columns: the columns of both inputs, and `INPUT_NUMBER`.
        function, output: as in `co_process`.
        inputs: the columns that the function receives from each input.
        rejects: whether reject rows are emitted too.

    Raises:
        RefusedError: an argument is not valid.
    """
    return _state(columns, function, KeyedCoProcessFunction, output, tuple(inputs), rejects=rejects)


def given_columns(
    given: Arguments, what: str, used: object, every: Sequence[str], types: Container[str]
) -> tuple[str, ...]:
    """The columns of an input that a function receives.

    Args:
        given: the arguments of the operator.
        what: the name of the argument that selects them.
        used: the value of that argument; None: all of simple types.
        every: all columns of the input.
        types: the columns of simple types.

    Raises:
        RefusedError: a column is missing, or its type is not supported.
    """
    if used is None:
        return tuple(name for name in every if name in types)
    names = given.columns(what, used)
    for name in names:
        if name not in every or name not in types:
            raise given.refused(
                f"{what}: {name} is not found, or not of a simple type; available: "
                f"{', '.join(each for each in every if each in types)}"
            )
    return names


def _state(
    columns: Columns,
    function: object,
    base: type[KeyedProcessFunction],
    output: object,
    inputs: tuple[tuple[str, ...], ...],
    *,
    rejects: bool,
) -> FunctionState:
    given = columns.given
    if isinstance(function, type) or not isinstance(function, base):
        raise given.refused(
            f"function {function!r} is not valid; pass an object of a class derived from "
            f"{base.__name__}"
        )
    schema = output_schema(given, output)
    has_two = len(inputs) > 1
    added = {"reason", "batch_id", REJECTED, *([INPUT] if has_two else [])} if rejects else {}
    taken = [name for name in schema.names if name.lower() in added]
    if taken:
        raise given.refused(f"output column {taken[0]} is added by rejects=True; rename it")
    kind = type(function)
    number = [INPUT_NUMBER] if has_two else []
    names = dict.fromkeys(chain(number, *inputs))
    payload = tuple((name, columns.types[name]) for name in names if name not in columns.keys)
    try:
        opened = opened_copy(function)
        states = opened.columns()
        form_of(function, {each.name: each.kind for each in states})
    except RefusedError as error:
        raise given.refused(str(error)) from error
    except (Exception, SystemExit) as error:
        raise given.refused(f"{kind.__qualname__}.open {said_by(error)}; correct it") from error
    name = f"{kind.__module__}.{kind.__qualname__}"
    return FunctionState(name, states, payload, inputs, schema, opened.ttls_ms)


def order_of(function: object, policy: Policy, in_order: bool | None) -> bool:
    """Whether rows wait for the watermark: as requested, otherwise if the output depends strongly
    on order.
    """
    if in_order is not None:
        return in_order
    has_timers = isinstance(function, KeyedProcessFunction) and (
        overrides(function, "on_timer") or overrides(function, "on_timers")
    )
    return has_timers and policy.time is TimeDomain.EVENT


ON_ERROR = ("stop", "reject")


def with_function(
    spec: OperatorSpec, function: KeyedProcessFunction, on_error: str
) -> OperatorSpec:
    """The spec of a `process` operator with a copy of the function for its tasks.

    Raises:
        RefusedError: `on_error` is not valid.
    """
    refused = f"operator {spec.uid!r}: on_error {on_error!r}"
    if on_error not in ON_ERROR:
        raise RefusedError(f"{refused} is not valid; pass 'stop' or 'reject'")
    rejects = on_error == "reject"
    if rejects and not spec.rejects:
        raise RefusedError(f"{refused} needs rejects=True to emit the rejected records; add it")
    kind: Any = spec.table.kind
    form = form_of(function, {each.name: each.kind for each in kind.states})
    try:
        copied = copy.deepcopy(function)
    except Exception as error:
        raise RefusedError(
            f"operator {spec.uid!r}: {type(function).__qualname__} cannot be copied: {error}; "
            "create in open what tasks cannot be sent, such as locks and connections"
        ) from error
    given = kind.given_columns, kind.output, kind.ttls_ms
    bound = BoundFunction(spec.uid, copied, *given, rejects, form)
    return replace(spec, operator_step=ProcessStep(bound))
