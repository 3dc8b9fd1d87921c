"""TLS of the control plane."""

import ssl
from typing import TYPE_CHECKING

from idlestate.sidecar.protocol.access_control import AccessError
from idlestate.sidecar.protocol.certificates import take_authority, take_pair

if TYPE_CHECKING:
    from idlestate.config.sidecar_settings import Tls


def http_tls(tls: "Tls | None") -> ssl.SSLContext | None:
    """The TLS context of the control plane.

    Raises:
        AccessError: a file cannot be used.
    """
    if tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        take_pair(context, tls.cert_file, tls.key_file)
        if tls.client_ca_file:
            take_authority(context, tls.client_ca_file)
            context.verify_mode = ssl.CERT_REQUIRED
    except OSError as error:
        raise AccessError(f"tls: {error.filename}: {error.strerror}") from error
    except ValueError as error:
        raise AccessError(f"tls: {error}") from error
    return context
