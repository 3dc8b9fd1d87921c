"""Refuses policies that joins cannot use, once the policy of each input is known."""

from collections.abc import Iterator

from idlestate.config.problems import FieldPath, Finding
from idlestate.config.sql.query_plan import Retention
from idlestate.retention.policy import Policy, TimeDomain, UpdateType


def check_join_policy(
    kind: str, path: FieldPath, policy: Policy, hint: Retention | None
) -> Iterator[Finding]:
    """Refuse a policy of an input of a join.

    Args:
        kind: the kind of operator; all except joins accept any policy.
        path: the pipeline, or its second input.
        policy: the policy of the input.
        hint: the query's hint for the input.
    """
    named, line = (*path, "policy"), 0
    what = ""
    if hint is not None and hint.policy is not None:
        named, line, what = (*path[:2], "query"), hint.place.line, f"{hint.place}: "
    if kind in ("join", "join_asof") and policy.time is TimeDomain.PROCESSING:
        what += "a join needs event time, and the policy sets time: processing"
        yield Finding(named, what, "use a policy with time: event", line)
    elif kind == "join" and UpdateType.ON_READ_AND_WRITE in (policy.update, policy.ttl_update):
        what += "update: on_read_and_write does not apply to joins, as a match extends no life"
        yield Finding(named, what, "use on_create_and_write, and a longer ttl", line)
