"""`idlestate operator`, `clock` and `health`: what is told to and asked of a running sidecar."""

import http.client
import socket
import sys
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import click

_HEALTH_S = 3.0


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
    click.echo(f"accepted: the clock was set by {round(answer['divergence_ms'] / 1000)} s")


@click.command()
@click.option(
    "--live",
    is_flag=True,
    help="Whether it lives, though it may take no calls now: it starts a worker again, or stops.",
)
@click.argument("control")
def health(control: str, live: bool) -> None:
    """Ask a sidecar's control plane whether it takes calls; exit code 0 or 1.

    CONTROL is unix:PATH or http://ADDRESS:PORT, as `idlestate serve` says when it starts.

    \b
    Examples:
      idlestate health http://127.0.0.1:9465
      idlestate health --live http://127.0.0.1:9465
    """
    try:
        place = urlsplit(control)
        is_place = bool(place.path if place.scheme == "unix" else place.hostname and place.port)
    except ValueError:  # of the port, or of brackets
        is_place = False
    if not is_place or place.scheme not in ("unix", "http"):
        click.secho(f"{control}: write unix:PATH or http://ADDRESS:PORT", fg="red", err=True)
        sys.exit(1)
    connection: http.client.HTTPConnection
    if place.scheme == "unix":
        connection = http.client.HTTPConnection("localhost", timeout=_HEALTH_S)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(_HEALTH_S)
    else:
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=_HEALTH_S)
    try:
        if place.scheme == "unix":
            connection.sock.connect(place.path)
        connection.request("GET", "/healthz" if live else "/readyz")
        response = connection.getresponse()
        told = response.read().decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as error:
        click.secho(f"{control}: {error}", fg="red", err=True)
        sys.exit(1)
    finally:
        connection.close()
    click.echo(told)
    # 401: it is there, and takes calls of those it knows.
    sys.exit(0 if response.status in (HTTPStatus.OK, HTTPStatus.UNAUTHORIZED) else 1)


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
