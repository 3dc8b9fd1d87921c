"""`idlestate operator`, `clock` and `health`: commands to a running sidecar."""

import http.client
import json
import socket
import ssl
import sys
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import click

from idlestate.service.system_errors import os_problem
from idlestate.sidecar.protocol.certificates import take_authority, take_pair
from idlestate.sidecar.protocol.token import read_token

USAGE = 2
_HEALTH_S = 3.0
Command = Callable[..., Any]


def shows_secrets(command: Command) -> Command:
    """A command that calls a sidecar; it takes the fields of an `Address`."""
    for option in (
        click.option("--key-file", help="Private key of --cert-file."),
        click.option("--cert-file", help="Client certificate to present to the sidecar."),
        click.option("--ca-file", help="Certificate authority of the sidecar, for TLS."),
        click.option("--token-file", help="File with the bearer token of the sidecar."),
    ):
        command = option(command)
    return command


def refuse_unused(secrets: Mapping[str, str | None], sidecar: str | None) -> None:
    """End a command that got options of an `Address`, but no address: it would not use them."""
    given = [f"--{name.replace('_', '-')}" for name, value in secrets.items() if value]
    if given and sidecar is None:
        click.secho(f"{given[0]} requires --sidecar ADDRESS", fg="red", err=True)
        sys.exit(USAGE)


def _asks_sidecar(command: Command) -> Command:
    place = click.option(
        "--sidecar", "place", required=True, metavar="ADDRESS", help="unix:PATH or HOST:PORT."
    )
    return place(shows_secrets(command))


@click.group()
def operator() -> None:
    """Manage the operators of a running sidecar."""


@operator.command()
@click.argument("uid")
@_asks_sidecar
def release(uid: str, place: str, **secrets: str | None) -> None:
    """Release an operator from the query that owns it. Its state stays.

    What the query has prepared but not committed is discarded.

    \b
    Example:
      idlestate operator release clicks-by-session --sidecar 127.0.0.1:9466
    """
    _call(place, secrets, "release", {"uid": uid})
    click.echo(f"{uid}: released; another query may own it now")


@click.group()
def clock() -> None:
    """Manage the clock of a running sidecar."""


@clock.command()
@_asks_sidecar
def accept(place: str, **secrets: str | None) -> None:
    """Accept the wall clock after it jumped by more than max_clock_step.

    \b
    Example:
      idlestate clock accept --sidecar unix:build/sidecar/data.sock
    """
    answer = _call(place, secrets, "accept_clock", {})
    click.echo(f"accepted: the clock was set by {round(answer['divergence_ms'] / 1000)} s")


@click.command()
@click.option(
    "--live",
    is_flag=True,
    help="Check only that the process is alive. It may still reject calls, for example while it "
    "stops or a worker restarts. Needs no token.",
)
@shows_secrets
@click.argument("control")
def health(control: str, live: bool, **secrets: str | None) -> None:
    """Check whether a sidecar accepts calls: exit code 0 or 1.

    CONTROL is unix:PATH, http://ADDRESS:PORT or https://ADDRESS:PORT, as printed by `idlestate
    serve` when it starts. The certificate is verified if you pass --ca-file or --token-file.

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
    if not is_place or place.scheme not in ("unix", "http", "https"):
        click.secho(
            f"{control}: not a valid address; use unix:PATH or http[s]://ADDRESS:PORT",
            fg="red",
            err=True,
        )
        sys.exit(1)
    try:
        with closing(_connection_to(place, secrets)) as connection:
            connection.request(
                "GET", "/healthz" if live else "/readyz", headers=_token_of(secrets["token_file"])
            )
            response = connection.getresponse()
            told = _told(response)
    except (OSError, ValueError) as error:
        hint = "; check the address, and that the sidecar is running" if _is_away(error) else ""
        click.secho(f"{control}: {os_problem(error)}{hint}", fg="red", err=True)
        sys.exit(1)
    except http.client.HTTPException:  # its text may be any bytes
        hint = "does not speak HTTP; pass the control address, not that of the data plane"
        click.secho(f"{control}: {hint}", fg="red", err=True)
        sys.exit(1)
    if response.status == HTTPStatus.UNAUTHORIZED:
        if live:
            click.echo(told)  # a sidecar that refuses a client is alive
            return
        hint = f"{control}: authentication required: pass --token-file PATH"
        click.secho(hint, fg="red", err=True)
        sys.exit(1)
    click.echo(told)
    sys.exit(0 if response.status == HTTPStatus.OK else 1)


def _told(response: http.client.HTTPResponse) -> str:
    """The answer of a control plane, or why there is none."""
    text = response.read().decode(errors="replace").strip()
    with suppress(ValueError, KeyError, TypeError):  # not the answer of a sidecar
        return str(json.loads(text)["error"])
    return text


def _is_away(error: Exception) -> bool:
    """Whether an error is about the connection, not about a file or a certificate."""
    is_connection = isinstance(error, OSError) and not error.filename
    return is_connection and not isinstance(error, ssl.SSLError)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_HEALTH_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _token_of(token_file: str | None) -> dict[str, str]:
    """The header with the token.

    Raises:
        ValueError: the file contains no token.
    """
    return {"Authorization": f"Bearer {read_token(Path(token_file))}"} if token_file else {}


def _connection_to(
    place: SplitResult, secrets: dict[str, str | None]
) -> http.client.HTTPConnection:
    """A connection that the first request opens.

    Raises:
        OSError, ValueError: a certificate cannot be used.
    """
    if place.scheme == "unix":
        return _UnixConnection(place.path)
    host = place.hostname or ""
    if place.scheme == "http":
        return http.client.HTTPConnection(host, place.port, timeout=_HEALTH_S)
    context = ssl.create_default_context()
    if secrets["ca_file"]:
        take_authority(context, secrets["ca_file"])
    elif not secrets["token_file"]:  # nothing secret is sent
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if secrets["cert_file"]:
        take_pair(context, secrets["cert_file"], secrets["key_file"])
    return http.client.HTTPSConnection(host, place.port, timeout=_HEALTH_S, context=context)


def _call(
    place: str, secrets: dict[str, str | None], name: str, header: dict[str, Any]
) -> dict[str, Any]:
    # Imported late: an invalid command line should be reported at once.
    from idlestate.sidecar.protocol.connection import Address, Connection
    from idlestate.sidecar.protocol.errors import SidecarError

    connection = Connection(Address(place, **secrets), patience_s=5)
    try:
        return connection.call(name, header).header
    except SidecarError as error:
        click.secho(str(error), fg="red", err=True)
        sys.exit(1)
    finally:
        connection.close()
