"""Names of the columns that idlestate adds beside keys and aggregates."""

from collections.abc import Iterable

CHANGE_COLUMNS = ("change", "created_at", "last_access", "expired_at", "reason", "batch_id")
"""Of change rows; with rejects, `REJECTED` follows."""

UPDATE, EXPIRE, REJECT = "update", "expire", "reject"
"""The values of `change`."""

REJECTED = "rejected"

INPUT = "input"
"""Of two inputs, the one that a reject row is of."""

LIFE_COLUMNS = (
    *("created_at", "written_at", "read_at", "armed_at"),
    *("last_access", "cleanup_at", "deadline", "reason"),
)
"""Of lives, as `read_state` and look-ups return them."""

ADDED_COLUMNS = tuple(dict.fromkeys((*CHANGE_COLUMNS, REJECTED, *LIFE_COLUMNS)))
"""All of these: names that keys and aggregates may not have."""


def used_twice(names: Iterable[str]) -> str | None:
    """The first name that is an added column or an earlier name; None if all are free.

    Names that differ in case alone are the same, as in Spark SQL.
    """
    taken = set(ADDED_COLUMNS)
    for name in names:
        if name.lower() in taken:
            return name
        taken.add(name.lower())
    return None
