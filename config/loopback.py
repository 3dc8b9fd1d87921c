"""Which addresses mean this machine."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether a host is a name or address that always means this machine."""
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
