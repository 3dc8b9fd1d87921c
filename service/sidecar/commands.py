"""`idlestate operator` and `idlestate clock`: what a person may tell a running sidecar."""

import sys
from collections.abc import Callable
from typing import Any

import click


def _asks_sidecar(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--ca-file", help="The authority of its certificate; switches TLS on."),
        click.option("--token-file", help="The file with its bearer token."),
        click.option(
            "--sidecar", "place", required=True, metavar="ADDRESS", help="unix:PATH or HOST:PORT."
        ),
    ):
        command = option(command)
    return command


@click.group()
def operator() -> None:
    """Operators of a running sidecar."""


@operator.command()
@click.argument("uid")
@_asks_sidecar
def release(uid: str, place: str, token_file: str | None, ca_file: str | None) -> None:
    """Let an operator go on without the query that owns it; its state stays.

    What the query has prepared and not committed is dropped.

    \b
    Example:
      idlestate operator release clicks-by-session --sidecar 127.0.0.1:9464
    """
    _call(place, token_file, ca_file, "release", {"uid": uid})
    click.echo(f"{uid}: released; another query may own it now")


@click.group()
def clock() -> None:
    """The clock of a running sidecar."""


@clock.command()
@_asks_sidecar
def accept(place: str, token_file: str | None, ca_file: str | None) -> None:
    """Believe the wall clock again after it was set by more than max_clock_step.

    \b
    Example:
      idlestate clock accept --sidecar unix:build/sidecar/data.sock
    """
    answer = _call(place, token_file, ca_file, "accept_clock", {})
    click.echo(f"accepted: the clock was set by {answer['divergence_ms'] / 1000:.0f} s")


def _call(
    place: str, token_file: str | None, ca_file: str | None, name: str, header: dict[str, Any]
) -> dict[str, Any]:
    # Only now: a command line that is wrong should be told at once.
    from idlestate.backends.sidecar.connection import Address, Connection
    from idlestate.backends.sidecar.errors import SidecarError

    connection = Connection(Address(place, token_file, ca_file), patience_s=5)
    try:
        return connection.call(name, header).header
    except SidecarError as error:
        click.secho(str(error), fg="red", err=True)
        sys.exit(1)
    finally:
        connection.close()
