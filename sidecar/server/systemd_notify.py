"""Notifies systemd of the service's state, if it asked for that: one datagram each."""

import os
import socket
from contextlib import suppress


def notify(state: str) -> None:
    """Send `READY=1`, `RELOADING=1` or `STOPPING=1`; nothing without `NOTIFY_SOCKET`."""
    place = os.environ.get("NOTIFY_SOCKET")
    if not place:
        return
    address = "\0" + place[1:] if place.startswith("@") else place
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
        link.sendto(state.encode(), address)
