"""Policies as the query of a URL: `?idle_min=30m&idle_max=45m&ttl=1d`, fields as in `Policy`. For a
join, `right_ttl` and the like set the policy of right rows.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from idlestate.retention.policy import Policy, TimeDomain, UpdateType
from idlestate.retention.shown_values import show

_SPANS = ("idle_min", "idle_max", "ttl", "max_lifetime", "remember", "min_gap")
_UPDATES = ("update", "ttl_update")
_RIGHT = "right_"


def policies_of(query: str, time: TimeDomain) -> tuple[Policy, Policy | None]:
    """The policy that a query describes, and the policy of right rows, each None if the query has
    no field for it. Omitted rules are off.

    Args:
        query: the query, as received.
        time: the operator's time domain.

    Raises:
        ValueError: a field is unknown, repeated or not valid, or the fields contradict each other.
    """
    given = parse_qsl(query, keep_blank_values=True, max_num_fields=20)
    fields = dict(given)
    known = (*_SPANS, *_UPDATES)
    unknown = [name for name in fields if name.removeprefix(_RIGHT) not in known]
    if unknown or len(fields) < len(given):
        what = f"{show(unknown[0])} is not a field" if unknown else "a field is given twice"
        raise ValueError(
            f"{what}; use {', '.join(known)}, each once, for right rows of a join with {_RIGHT} "
            "in front"
        )
    right = {name: fields.pop(name) for name in [*fields] if name.startswith(_RIGHT)}
    of_right = {name.removeprefix(_RIGHT): value for name, value in right.items()}
    return _policy(fields, time), _policy(of_right, time) if of_right else None


def _policy(given: Mapping[str, str], time: TimeDomain) -> Policy:
    fields: dict[str, Any] = dict(given)
    for name in _UPDATES:
        if name in fields:
            fields[name] = UpdateType(fields[name])
    return Policy(time=time, **fields)
