"""`idlestate explain`: why a key is, or is no longer, in state."""

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from idlestate._without_pandas import without_pandas
from idlestate.service.checkpoint_path import CheckpointPath
from idlestate.service.sidecar_commands import refuse_unused, shows_secrets
from idlestate.service.system_errors import os_problem

if TYPE_CHECKING:
    from idlestate.backends.shards.key_details import Explanation

FAILED, USAGE = 1, 2


@click.command()
@click.argument("checkpoint", type=CheckpointPath(), required=False)
@click.option(
    "--operator", "uid", help="Operator. Required for a sidecar, or if there are several."
)
@click.option(
    "--key",
    "key",
    multiple=True,
    help="Value of the key column. Repeat it for several columns, in the order of `key`.",
)
@click.option(
    "--key-json",
    metavar="JSON",
    help="The key as JSON, instead of --key: an array in the order of `key`, or an object by "
    "column. Needed for null.",
)
@click.option("--sidecar", metavar="ADDRESS", help="A running sidecar: unix:PATH or HOST:PORT.")
@click.option(
    "--format",
    "output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What to print.",
)
@shows_secrets
def explain(
    checkpoint: Path | None,
    uid: str | None,
    key: tuple[str, ...],
    key_json: str | None,
    sidecar: str | None,
    output: str,
    **secrets: str | None,
) -> None:
    """Explain why a key is in state, or no longer.

    CHECKPOINT is the checkpoint of a query, which may be running. Spark starts only if the
    records beside the state are lost. Looking at a key does not extend its life.

    \b
    Examples:
      idlestate explain build/checkpoint --key s-000123
      idlestate explain build/checkpoint --key-json '[null]'
      idlestate explain --operator carts --key ada --sidecar unix:build/sidecar/data.sock
    """
    if checkpoint is None and (sidecar is None or uid is None):
        _fail("pass a CHECKPOINT, or --sidecar ADDRESS and --operator UID", USAGE)
    if bool(key) == (key_json is not None):
        _fail("pass either --key or --key-json", USAGE)
    refuse_unused(secrets, sidecar)
    asked = key if key_json is None else _key_in(key_json)
    # Imported late: Arrow takes a while.
    from idlestate.errors import IdlestateError
    from idlestate.sidecar.protocol.connection import Address

    try:
        address = Address(sidecar, **secrets) if sidecar else None
        found = _explained(asked, checkpoint, uid=uid, sidecar=address)
    except IdlestateError as error:
        _fail(str(error))
    except OSError as error:
        _fail(os_problem(error))
    if output == "json":
        click.echo(json.dumps(found.to_json(), indent=2))
    else:
        click.echo("\n".join(_lines(found)))


def _key_in(text: str) -> dict[str, Any] | list[Any]:
    """The key from its JSON."""
    try:
        found = json.loads(text)
    except ValueError as error:
        _fail(f"--key-json is not valid JSON: {error}", USAGE)
    if not isinstance(found, dict | list):
        _fail("--key-json takes an array such as [null], or an object by column", USAGE)
    return found


def _explained(
    key: Mapping[str, Any] | Sequence[Any], checkpoint: Path | None, **where: Any
) -> "Explanation":
    with without_pandas():
        from idlestate.pipeline.checkpoint.recorded_shards import UnrecordedError
        from idlestate.pipeline.explanations import explain as explain_key

        try:
            return explain_key(key, checkpoint, **where)
        except UnrecordedError as error:
            why = str(error)
            if checkpoint is None:
                raise
    from idlestate.service.state_commands import session_on

    with session_on(checkpoint, why) as spark:
        return explain_key(key, checkpoint, spark=spark, **where)


def _lines(found: "Explanation") -> list[str]:
    from idlestate.backends.shards.key_in_words import key_in_words
    from idlestate.retention.policy_in_words import policy_in_brief

    facts = found.to_json()
    key = ", ".join(f"{name}={_shown(value)}" for name, value in facts["key"].items())
    lines = [f"{found.uid}, {key}: {key_in_words(found.details, _moment)}"]
    for name in ("created_at", "written_at", "read_at", "armed_at", "last_access", "cleanup_at"):
        at_ms = facts[f"{name}_ms"]
        if at_ms is not None:
            lines.append(f"  {name:<12} {_moment(at_ms)}")
    if facts["timer_at_ms"] is not None:
        lines.append(f"  {'next timer':<12} {_moment(facts['timer_at_ms'])}")
    for side, of in found.details.sides.items():
        times = f"of {_moment(of.first_ms)} to {_moment(of.last_ms)}"
        lines.append(f"  {side + ' rows':<12} {of.rows:,}, {of.overdue:,} of them overdue; {times}")
        if of.next_end_ms is not None:
            lines.append(f"  {'':<12} the next one ends at {_moment(of.next_end_ms)}")
    if facts["deadline_ms"] is not None and facts["state"] in ("open", "overdue"):
        lines.append(f"  {'deadline':<12} {_moment(facts['deadline_ms'])}, by {facts['reason']}")
    if facts["state"] not in ("open", "overdue") and facts["remembered_since_ms"] is not None:
        lines.append(
            f"  remembered   keys that ended since {_moment(facts['remembered_since_ms'])}"
        )
    if facts["held_rows"]:
        lines.append(
            f"  {'waiting':<12} {facts['held_rows']:,} rows, from {_moment(facts['held_from_ms'])} "
            "on: they are processed when the watermark reaches them"
        )
    by = f" ({found.policy.chosen_by})" if found.policy.chosen_by else ""
    lines.append(
        f"  policy       version {found.policy_version}, {policy_in_brief(found.policy)}{by}"
    )
    if found.right_policy is not None:
        lines.append(f"  right policy {policy_in_brief(found.right_policy)}")
    lines.append(f"  time         {_moment(found.now_ms)}")
    return lines


def _shown(value: str | None) -> str:
    """A value of a key on one line; in quotes if it could be taken for null or is not printable."""
    if value is None:
        return "null"
    is_plain = value.isprintable() and value not in ("", "null")
    return value if is_plain else json.dumps(value)


def _moment(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(" ", "milliseconds")
    except (OverflowError, ValueError, OSError):  # beyond the calendar
        return f"{at_ms} ms"


def _fail(message: str, code: int = FAILED) -> NoReturn:
    click.secho(message, fg="red", err=True)
    sys.exit(code)
