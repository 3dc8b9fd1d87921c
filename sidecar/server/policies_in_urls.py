"""A policy as the query of a URL: `?idle_min=30m&idle_max=45m&ttl=1d`, fields as in `Policy`."""

from typing import Any
from urllib.parse import parse_qsl

from idlestate.retention.policy import Policy, TimeDomain, UpdateType
from idlestate.retention.shown_values import show

_SPANS = ("idle_min", "idle_max", "ttl", "max_lifetime", "remember", "min_gap")
_UPDATES = ("update", "ttl_update")


def policy_of(query: str, time: TimeDomain) -> Policy:
    """The policy that a query describes; rules that it leaves out are off.

    Args:
        query: as it came.
        time: the operator's.

    Raises:
        ValueError: a field is unknown, given twice or wrong, or the fields contradict each other.
    """
    given = parse_qsl(query, keep_blank_values=True, max_num_fields=20)
    fields: dict[str, Any] = dict(given)
    known = (*_SPANS, *_UPDATES)
    unknown = [name for name in fields if name not in known]
    if unknown or len(fields) < len(given):
        what = f"{show(unknown[0])} is not a field" if unknown else "a field is given twice"
        raise ValueError(f"{what}; use {', '.join(known)}, each once")
    for name in _UPDATES:
        if name in fields:
            fields[name] = UpdateType(fields[name])
    return Policy(time=time, **fields)
