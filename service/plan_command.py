"""`idlestate plan`: what a changed policy would remove."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from idlestate._without_pandas import without_pandas
from idlestate.service.checkpoint_path import CheckpointPath
from idlestate.service.sidecar_commands import refuse_unused, shows_secrets
from idlestate.service.system_errors import os_problem

if TYPE_CHECKING:
    from idlestate.backends.shards.planned_removals import PolicyPlan
    from idlestate.sidecar.protocol.connection import Address

FAILED, USAGE = 1, 2
_IN = {0: "now", 3_600_000: "in 1h", 86_400_000: "in 24h"}


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--against",
    metavar="CHECKPOINT",
    type=CheckpointPath(),
    help="Plan for the state in this checkpoint.",
)
@click.option(
    "--sidecar",
    metavar="ADDRESS",
    help="Plan for the state in this running sidecar: unix:PATH or HOST:PORT.",
)
@click.option("--operator", "uid", help="Plan for this operator only.")
@click.option(
    "--format",
    "output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What to print.",
)
@shows_secrets
def plan(
    file: Path,
    against: Path | None,
    sidecar: str | None,
    uid: str | None,
    output: str,
    **secrets: str | None,
) -> None:
    """Show what the policies of a changed file would remove. Removes nothing.

    For each operator, the command counts the keys and bytes that would be removed now, in 1 hour
    and in 24 hours. In event time these spans count from the query's watermark. The query may be
    running. Spark starts only if the records beside the state are lost.

    \b
    Examples:
      idlestate plan config/clicks.yaml --against build/checkpoint
      idlestate plan config/sidecar.yaml --sidecar unix:build/sidecar/data.sock --format json
    """
    if against is None and sidecar is None:
        _fail("pass --against CHECKPOINT or --sidecar ADDRESS", USAGE)
    refuse_unused(secrets, sidecar)
    # Imported late: Arrow takes a while.
    from idlestate.errors import IdlestateError
    from idlestate.sidecar.protocol.connection import Address

    try:
        address = Address(sidecar, **secrets) if sidecar else None
        plans = _plans(file, against, uid, address)
    except IdlestateError as error:
        _fail(str(error))
    except OSError as error:
        _fail(os_problem(error))
    if output == "json":
        click.echo(json.dumps([each.to_json() for each in plans], indent=2))
        return
    for each in plans:
        click.echo("\n".join(_lines(each)))


def _plans(
    file: Path, against: Path | None, uid: str | None, address: "Address | None"
) -> "list[PolicyPlan]":
    with without_pandas():
        from idlestate.pipeline.checkpoint.recorded_shards import UnrecordedError
        from idlestate.pipeline.policy_plans import plan as plan_of

        try:
            return plan_of(file, against, uid=uid, sidecar=address)
        except UnrecordedError as error:
            why = str(error)
            if against is None:
                raise
    from idlestate.service.state_commands import session_on

    with session_on(against, why) as spark:
        return plan_of(file, against, uid=uid, sidecar=address, spark=spark)


def _lines(plan: "PolicyPlan") -> list[str]:
    from idlestate.retention.policy_in_words import policy_in_brief

    lines = [
        f"{plan.uid}: {policy_in_brief(plan.policy)} -> {policy_in_brief(plan.new_policy)}",
        *_right_line(plan),
        f"  {plan.live_keys:,} live keys, {plan.stored_bytes:,} B of state",
        f"  {'removed':<10}{'keys':>15}{'bytes':>19}{'by the current policy':>25}",
    ]
    for each in plan.horizons:
        keys, size = f"{each.new.keys:,}", f"{each.new.bytes:,} B"
        lines.append(f"  {_IN[each.in_ms]:<10}{keys:>15}{size:>19}{each.current.keys:>25,}")
    if plan.refusal is not None:
        lines.append(f"  a reload is refused: {plan.shrink:.0%} of the live keys would go at once")
    return lines


def _right_line(plan: "PolicyPlan") -> list[str]:
    """How the policy of a join's right rows changes."""
    from idlestate.retention.policy_in_words import policy_in_brief

    if plan.right is None:
        return []
    before, after = map(policy_in_brief, plan.right)
    return [f"  right rows: {before} -> {after}"]


def _fail(message: str, code: int = FAILED) -> NoReturn:
    click.secho(message, fg="red", err=True)
    sys.exit(code)
