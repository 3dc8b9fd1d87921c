"""Whether two runs are equal: last rows of lives, expire rows, final states.

Expected values are the reference's; found ones are plain Python, as Arrow or Spark hand them out,
with times in int milliseconds. Integers, decimals, strings and times are compared exactly,
floating sums and averages to 1 in 10**12.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

from tests.reference import Key, Row, State
from tests.reference_values import Within

TOLERANCE = 1e-12
LAST_MS = (2**63 - 1) // 1000
"""The last millisecond that a timestamp in microseconds can say."""
ROW_TIMES = ("created_at", "last_access", "expired_at")
STATE_TIMES = (
    *("created_at", "written_at", "read_at", "armed_at"),
    *("last_access", "cleanup_at", "deadline"),
)
_WIDE = Context(prec=80)


def is_same(expected: Any, found: Any, *, computed: bool = True) -> bool:
    """Whether a value is the expected one; only computed floats may be off by the tolerance."""
    if expected is None or found is None:
        return expected is None and found is None
    if isinstance(expected, Within):
        return bool(expected.least <= found <= expected.most)
    if isinstance(expected, list):
        pairs = zip(expected, found, strict=False)
        return len(expected) == len(found) and all(is_same(*pair, computed=False) for pair in pairs)
    if isinstance(found, Decimal):
        return _as_decimal(expected, found) == found
    if isinstance(expected, Fraction):
        expected = float(expected)
    if isinstance(expected, float):
        if not isinstance(found, float) or math.isnan(expected) != math.isnan(found):
            return False
        if math.isnan(expected) or expected == found:
            return True
        return computed and math.isclose(expected, found, rel_tol=TOLERANCE)
    return type(expected) is type(found) and bool(expected == found)


def _as_decimal(expected: Any, like: Decimal) -> Decimal:
    """The exact value at the scale of a decimal result, half away from zero."""
    if isinstance(expected, Decimal):
        return expected
    exact = Fraction(expected)
    exponent = like.as_tuple().exponent
    assert isinstance(exponent, int)
    scaled = exact * Fraction(10) ** -exponent
    units = math.floor(abs(scaled) + Fraction(1, 2)) * (1 if scaled >= 0 else -1)
    return Decimal(units).scaleb(exponent, _WIDE).quantize(like, ROUND_HALF_UP, _WIDE)


def assert_rows(
    expected: Iterable[Row], found: Sequence[Mapping[str, Any]], texts: Mapping[str, str]
) -> None:
    """Compare rows as multisets.

    Args:
        expected: the reference's rows.
        found: dicts with `key` (a tuple), one entry per aggregate, `change`, the three times in
            ms and `reason`.
        texts: the aggregates, name to text.
    """
    wanted = sorted(expected, key=lambda row: _place(row.key, row.created_at, row.expired_at))
    rows = sorted(found, key=lambda row: _place(row["key"], row["created_at"], row["expired_at"]))
    names = [(row.key, row.created_at, row.change) for row in wanted]
    assert names == [(row["key"], row["created_at"], row["change"]) for row in rows]
    for row, other in zip(wanted, rows, strict=True):
        for name in (*ROW_TIMES, "reason"):
            assert getattr(row, name) == other[name], (name, row, other)
        assert_aggregates(row.aggregates, other, texts, row)


def assert_states(
    expected: Mapping[Key, State], found: Sequence[Mapping[str, Any]], texts: Mapping[str, str]
) -> None:
    """Compare open lives; `found` has `key`, aggregates, the seven times in ms and `reason`."""
    by_key = {row["key"]: row for row in found}
    assert len(by_key) == len(found), "a key has two open lives"
    assert sorted(by_key, key=repr) == sorted(expected, key=repr)
    for key, state in expected.items():
        for name in (*STATE_TIMES, "reason"):
            expected_ms = sayable(getattr(state, name)) if name != "reason" else state.reason
            assert expected_ms == by_key[key][name], (name, key, state, by_key[key])
        assert_aggregates(state.aggregates, by_key[key], texts, key)


def assert_aggregates(
    expected: Mapping[str, Any], found: Mapping[str, Any], texts: Mapping[str, str], where: Any
) -> None:
    for name, value in expected.items():
        computed = texts[name].startswith(("sum", "avg", "std", "var"))
        assert is_same(value, found[name], computed=computed), (
            f"{name} = {texts[name]}: expected {value!r}, found {found[name]!r} in {where}"
        )


def sayable(t_ms: int | None) -> int | None:
    """A time as a timestamp of microseconds has it: none beyond its range."""
    return None if t_ms is None or t_ms > LAST_MS else t_ms


def _place(key: Key, created_at: int, expired_at: int | None) -> tuple[str, int, bool, int]:
    return (repr(key), created_at, expired_at is None, expired_at or 0)
