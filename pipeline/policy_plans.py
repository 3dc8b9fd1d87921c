"""`idlestate.plan`: what a changed policy would remove from the state of a query or a sidecar."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from idlestate.backends.checkpoint.operator_layout import operators, read_layout, spec_at
from idlestate.backends.checkpoint.policy_journal import PolicyJournal
from idlestate.backends.checkpoint.runs_folder import runs_of
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.run_files import RunFiles
from idlestate.backends.files.spark_logs import newest_committed, reached_watermark_ms
from idlestate.backends.shards.definition import Definition
from idlestate.backends.shards.next_record import open_table
from idlestate.backends.shards.planned_removals import (
    PolicyPlan,
    added_up,
    horizons_of,
    plan_of_shards,
)
from idlestate.config.loading import Config, load_config
from idlestate.errors import RefusedError
from idlestate.pipeline.checkpoint.recorded_shards import read_records
from idlestate.pipeline.sidecar_attachment import link_of
from idlestate.retention.policy import Policy, TimeDomain, UpdateType
from idlestate.retention.windows import parse_window
from idlestate.sidecar.protocol.connection import Address, Connection
from idlestate.sidecar.protocol.retries import CONNECT_TIMEOUT_S
from idlestate.timers.clock import Clock, SystemClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def plan(
    policy: str | Path | Policy,
    checkpoint: str | Path | None = None,
    *,
    uid: str | None = None,
    right_policy: Policy | None = None,
    sidecar: str | Address | None = None,
    spark: "SparkSession | None" = None,
    clock: Clock | None = None,
) -> list[PolicyPlan]:
    """Plan what a changed policy would remove now, in an hour and in a day; removes nothing.

    In event time these spans count from the query's watermark, in processing time from now.

    Args:
        policy: a configuration file with a policy for each operator, or a `Policy` for all.
        checkpoint: the checkpoint of a query, which may be running.
        uid: the operator; None for all operators that have a policy in the file.
        right_policy: for a join, the policy of right rows; None: that in the file, else `policy`.
        sidecar: the address of a sidecar; with a checkpoint, the current address.
        spark: a session, needed only if another version of idlestate wrote the checkpoint.
        clock: default: the system's.

    Returns:
        One `PolicyPlan` per operator.

    Raises:
        RefusedError: no such operator, another time domain, or nothing to read.
        ConfigError: the file is invalid.
        UnavailableError: the sidecar does not answer, or is busy.
    """
    chosen = policy if isinstance(policy, Policy) else load_config(Path(policy))
    address = Address(sidecar) if isinstance(sidecar, str) else sidecar
    if checkpoint is not None:
        folder = Folder(str(checkpoint))
        now_ms = (clock or SystemClock()).now_ms()
        uids = [uid] if uid else _meant(chosen, operators(folder))
        return [
            plan_for(
                *(folder, each, _policy(chosen, each), now_ms, address, spark),
                right=right_policy or _right_policy(chosen, each),
            )
            for each in uids
        ]
    if address is None:
        raise RefusedError("pass a checkpoint, or the address of a sidecar")
    with closing(Connection(address, connect_timeout_s=CONNECT_TIMEOUT_S)) as connection:
        uids = [uid] if uid else _meant(chosen, connection.call("hello").header["operators"])
        return [
            _asked(
                *(connection, each, _policy(chosen, each)),
                right_policy or _right_policy(chosen, each),
            )
            for each in uids
        ]


def plan_for(
    checkpoint: Folder,
    uid: str,
    policy: Policy,
    now_ms: int,
    address: Address | None = None,
    spark: "SparkSession | None" = None,
    *,
    right: Policy | None = None,
) -> PolicyPlan:
    """The plan of one operator of a checkpoint; see `plan`.

    Args:
        checkpoint, uid, policy, now_ms, address, spark: as in `plan`.
        right: for a join, the new policy of right rows; None: the same as `policy`.

    Raises:
        RefusedError, UnavailableError: see `plan`.
        UnrecordedError: only Spark can read this state, and there is no session.
    """
    layout = read_layout(checkpoint, uid)
    definition = layout.definitions[-1].definition
    right = right_policy_of(uid, policy, right, definition)
    refuse_unfit(uid, policy, definition, right)
    link = link_of(checkpoint, uid, address)
    if link is not None:
        with closing(link.connect(CONNECT_TIMEOUT_S)) as connection:
            connection.call("settle", {"uid": uid})
            return _asked(connection, uid, policy, right)
    newest = PolicyJournal(checkpoint, uid).newest
    before = newest.policy
    committed = newest_committed(checkpoint)
    if committed is None:
        return plan_of_shards(uid, [], added_up([]), before, policy, now_ms)
    records = read_records(checkpoint, uid, layout, committed, spark)
    if policy.time is TimeDomain.EVENT:
        now_ms = reached_watermark_ms(checkpoint, committed)
    else:
        now_ms = max([now_ms, *(each.time_ms for each in records)])
    runs, spec = runs_of(checkpoint, uid, layout), spec_at(checkpoint, uid, layout, committed)
    parts = []
    for each in records:
        table = open_table(spec, each, RunFiles(runs, each.shard))
        parts.append(horizons_of(table, each, newest.of_sides, (policy, right or policy), now_ms))
    found = plan_of_shards(uid, records, added_up(parts), before, policy, now_ms)
    return found if right is None else replace(found, right=(newest.of_sides[1], right))


def refuse_shrink(
    checkpoint: Folder,
    uid: str,
    policy: Policy,
    now_ms: int,
    address: Address | None = None,
    *,
    right: Policy | None = None,
) -> None:
    """Refuse a policy that would remove more of an operator at once than its `max_shrink` allows.

    Args:
        checkpoint: the query's checkpoint, with the operator.
        uid: the operator.
        policy: the new policy.
        now_ms: the driver's time.
        address: see `plan`.
        right: for a join, the new policy of right rows.

    Raises:
        RefusedError: the policy is refused, with the figures; or these cannot be computed.
        UnavailableError: the sidecar does not answer, or is busy.
    """
    if policy.max_shrink == 1 or PolicyJournal(checkpoint, uid).has_newest(policy, right):
        return
    refusal = plan_for(checkpoint, uid, policy, now_ms, address, right=right).refusal
    if refusal is not None:
        raise RefusedError(refusal)


def right_policy_of(
    uid: str, policy: Policy, right: Policy | None, definition: Definition
) -> Policy | None:
    """The policy of right rows of a join, by default that of left rows; None for other operators.

    Raises:
        RefusedError: the operator is not a join, and has only one input.
    """
    if definition.is_of_sides:
        return right or policy
    if right is not None:
        raise RefusedError(f"operator {uid!r} is not a join; remove right_policy")
    return None


def refuse_unfit(
    uid: str, policy: Policy, definition: Definition, right: Policy | None = None
) -> None:
    """Refuse a policy that does not apply to an operator; `right` is of a join's right rows.

    Raises:
        RefusedError: it has another time domain, the operator has windows, or it is a join and the
            policy counts reads.
    """
    if right is not None:
        refuse_unfit(uid, right, definition)
    if definition.is_of_sides:
        refuse_counted_reads(uid, policy)
    if definition.window and policy != parse_window(definition.window).policy:
        raise RefusedError(
            f"operator {uid!r} aggregates by window {definition.window}, which ends by itself and "
            "takes no policy; remove the policy, or start with another window and a new checkpoint"
        )
    time = definition.time
    if policy.time.value != time:
        raise RefusedError(
            f"operator {uid!r} uses {time} time, the new policy {policy.time.value} time, "
            "and deadlines of one do not apply to the other; set "
            f"time: {time} in the policy, or start with a new checkpoint"
        )


def refuse_counted_reads(uid: str, policy: Policy) -> None:
    """Refuse a policy of a join under which reads extend lives.

    Raises:
        RefusedError: it is such a policy.
    """
    if UpdateType.ON_READ_AND_WRITE in (policy.update, policy.ttl_update):
        raise RefusedError(
            f"operator {uid!r}: update: on_read_and_write does not apply to joins: a match does "
            "not extend the life of a row; use on_create_and_write, and a longer ttl"
        )


def _meant(chosen: Config | Policy, uids: Sequence[str]) -> list[str]:
    """The given operators that have a policy.

    Raises:
        RefusedError: there is none.
    """
    if isinstance(chosen, Policy):
        return list(uids)
    found = [
        uid for uid in uids if uid in chosen.pipelines or not chosen.policy_for(uid).is_unbounded
    ]
    if not found:
        raise RefusedError(
            f"{chosen.file} gives no policy to {', '.join(uids)}; name the operator under "
            "pipelines or selectors, or set defaults"
        )
    return found


def _policy(chosen: Config | Policy, uid: str) -> Policy:
    return chosen if isinstance(chosen, Policy) else chosen.policy_for(uid)


def _right_policy(chosen: Config | Policy, uid: str) -> Policy | None:
    return None if isinstance(chosen, Policy) else chosen.right_policy_for(uid)


def _asked(connection: Connection, uid: str, policy: Policy, right: Policy | None) -> PolicyPlan:
    header = {"uid": uid, "policy": policy.to_json(), "right": right and right.to_json()}
    answer = connection.call("plan", header).header
    return PolicyPlan.of_message(answer["plan"], policy)
