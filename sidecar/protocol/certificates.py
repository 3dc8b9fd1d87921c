"""Certificates in PEM files, checked so that errors name the file. With an invalid client
certificate, gRPC would only report that the sidecar is unavailable.
"""

import ssl
from pathlib import Path


def take_authority(context: ssl.SSLContext, file: str) -> bytes:
    """Trust the certificates in a file; return its content.

    Raises:
        OSError: it cannot be read.
        ValueError: it contains none.
    """
    text = Path(file).read_bytes()
    try:
        context.load_verify_locations(file)
    except ssl.SSLError as error:
        raise ValueError(
            f"{file} contains no certificate; pass the PEM file of the other side's authority"
        ) from error
    return text


def take_pair(context: ssl.SSLContext, cert_file: str, key_file: str | None) -> tuple[bytes, bytes]:
    """Use a certificate; return the contents of its file and of the key's file (None: the same).

    Raises:
        OSError: a file cannot be read.
        ValueError: they are not valid, or do not belong together.
    """
    pair = Path(cert_file).read_bytes(), Path(key_file or cert_file).read_bytes()
    try:
        # Without a password, OpenSSL asks for one on the terminal.
        context.load_cert_chain(cert_file, key_file, password="")
    except ssl.SSLError as error:
        raise ValueError(
            f"{cert_file} and {key_file or 'the key in it'} do not match, or cannot be used "
            f"({error}): pass the PEM files of a certificate and of its private key without a "
            "passphrase"
        ) from error
    return pair
