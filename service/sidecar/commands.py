"""`idlestate operator`, `clock` and `health`: what is told to and asked of a running sidecar."""

import http.client
import socket
import ssl
import sys
from collections.abc import Callable
from contextlib import closing
from http import HTTPStatus
from typing import Any
from urllib.parse import SplitResult, urlsplit

import click

from idlestate.backends.sidecar.certificates import take_pair

_HEALTH_S = 3.0
Command = Callable[..., Any]


def shows_certificate(command: Command) -> Command:
    """A command that may have a certificate of its own to show."""
    command = click.option("--key-file", help="The private key of --cert-file.")(command)
    return click.option("--cert-file", help="A certificate to show to the sidecar.")(command)


def shows_secrets(command: Command) -> Command:
    """A command that calls a sidecar's data plane; it takes the fields of an `Address`."""
    for option in (
        shows_certificate,
        click.option("--ca-file", help="The sidecar's certificate authority; switches TLS on."),
        click.option("--token-file", help="The file with the sidecar's bearer token."),
    ):
        command = option(command)
    return command


def _asks_sidecar(command: Command) -> Command:
    place = click.option(
        "--sidecar", "place", required=True, metavar="ADDRESS", help="unix:PATH or HOST:PORT."
    )
    return place(shows_secrets(command))


@click.group()
def operator() -> None:
    """Operators of a running sidecar."""


@operator.command()
@click.argument("uid")
@_asks_sidecar
def release(uid: str, place: str, **secrets: str | None) -> None:
    """Let an operator go on without the query that owns it; its state stays.

    What the query has prepared and not committed is dropped.

    \b
    Example:
      idlestate operator release clicks-by-session --sidecar 127.0.0.1:9466
    """
    _call(place, secrets, "release", {"uid": uid})
    click.echo(f"{uid}: released; another query may own it now")


@click.group()
def clock() -> None:
    """The clock of a running sidecar."""


@clock.command()
@_asks_sidecar
def accept(place: str, **secrets: str | None) -> None:
    """Believe the wall clock again after it was set by more than max_clock_step.

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
    help="Whether it lives, though it may take no calls now: it starts a worker again, or stops.",
)
@shows_certificate
@click.argument("control")
def health(control: str, live: bool, cert_file: str | None, key_file: str | None) -> None:
    """Ask a sidecar's control plane whether it takes calls; exit code 0 or 1.

    CONTROL is unix:PATH, http://ADDRESS:PORT or https://ADDRESS:PORT, as `idlestate serve` says
    when it starts. Nothing secret is told, so whose certificate it has is not checked.

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
        click.secho(f"{control}: write unix:PATH or http[s]://ADDRESS:PORT", fg="red", err=True)
        sys.exit(1)
    try:
        with closing(_connection_to(place, cert_file, key_file)) as connection:
            connection.request("GET", "/healthz" if live else "/readyz")
            response = connection.getresponse()
            told = response.read().decode(errors="replace").strip()
    except (OSError, ValueError, http.client.HTTPException) as error:
        click.secho(f"{control}: {error}", fg="red", err=True)
        sys.exit(1)
    click.echo(told)
    # 401: it is there, and takes calls of those it knows.
    sys.exit(0 if response.status in (HTTPStatus.OK, HTTPStatus.UNAUTHORIZED) else 1)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_HEALTH_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _connection_to(
    place: SplitResult, cert_file: str | None, key_file: str | None
) -> http.client.HTTPConnection:
    """A connection that is opened by the first request.

    Raises:
        OSError, ValueError: the certificate cannot be used.
    """
    if place.scheme == "unix":
        return _UnixConnection(place.path)
    host = place.hostname or ""
    if place.scheme == "http":
        return http.client.HTTPConnection(host, place.port, timeout=_HEALTH_S)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if cert_file is not None:
        take_pair(context, cert_file, key_file)
    return http.client.HTTPSConnection(host, place.port, timeout=_HEALTH_S, context=context)


def _call(
    place: str, secrets: dict[str, str | None], name: str, header: dict[str, Any]
) -> dict[str, Any]:
    # Only now: a command line that is wrong should be told at once.
    from idlestate.backends.sidecar.connection import Address, Connection
    from idlestate.backends.sidecar.errors import SidecarError

    connection = Connection(Address(place, **secrets), patience_s=5)
    try:
        return connection.call(name, header).header
    except SidecarError as error:
        click.secho(str(error), fg="red", err=True)
        sys.exit(1)
    finally:
        connection.close()
