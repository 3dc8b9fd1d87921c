"""Names of the columns that idlestate adds to keys and aggregates."""

from collections.abc import Iterable

CHANGE_COLUMNS = ("change", "created_at", "last_access", "expired_at", "reason", "batch_id")
"""The columns added to change rows; with rejects, `REJECTED` follows."""

UPDATE, EXPIRE, REJECT = "update", "expire", "reject"
"""The values of `change`."""

REJECTED = "rejected"

INPUT = "input"
"""The column with the input of a reject row, for two inputs."""

LIFE_COLUMNS = (
    *("created_at", "written_at", "read_at", "armed_at"),
    *("last_access", "cleanup_at", "deadline", "reason"),
)
"""The columns of lives that `read_state` and look-ups return."""

ADDED_COLUMNS = tuple(dict.fromkeys((*CHANGE_COLUMNS, REJECTED, *LIFE_COLUMNS)))
"""All added columns, whose names keys and aggregates may not have."""


def used_twice(names: Iterable[str]) -> str | None:
    """The first name that is an added column or an earlier name; None if all are free.

    As in Spark SQL, names that differ only in case are equal.
    """
    taken = set(ADDED_COLUMNS)
    for name in names:
        if name.lower() in taken:
            return name
        taken.add(name.lower())
    return None
