"""Addresses to listen on, as a field of a configuration file."""

import ipaddress
from typing import Annotated

from idlestate.config.field_kinds import FieldKind, refuse
from idlestate.retention.shown_values import show


def _read_address(value: object) -> str:
    fix = "use 127.0.0.1 for this machine only, or 0.0.0.0 for all networks"
    if not isinstance(value, str):
        raise refuse(f"expected an IP address, found {show(value)}", fix)
    try:
        ipaddress.ip_address("127.0.0.1" if value == "localhost" else value)
    except ValueError as error:
        raise refuse(f"{show(value)} is not an IP address", fix) from error
    return value


ListenAddress = Annotated[str, FieldKind(_read_address, {"type": "string", "minLength": 2})]
"""An IP address to listen on, or `localhost`."""
