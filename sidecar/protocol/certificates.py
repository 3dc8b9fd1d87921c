"""Certificates in PEM files. What is wrong with one is found here, by its name: of a client's, gRPC
would say no more than that the sidecar is away.
"""

import ssl
from pathlib import Path


def take_authority(context: ssl.SSLContext, file: str) -> bytes:
    """Trust the certificates in a file; what it holds.

    Raises:
        OSError: it cannot be read.
        ValueError: there are none in it.
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
    """Show a certificate; what it and its key hold, which may be in one file (None).

    Raises:
        OSError: a file cannot be read.
        ValueError: they are none, or do not go together.
    """
    pair = Path(cert_file).read_bytes(), Path(key_file or cert_file).read_bytes()
    try:
        # Given none, OpenSSL asks whoever has the terminal for one.
        context.load_cert_chain(cert_file, key_file, password="")
    except ssl.SSLError as error:
        raise ValueError(
            f"{cert_file} and {key_file or 'the key in it'} do not go together, or cannot be used "
            f"({error}): name the PEM files of a certificate and of its private key without a "
            "passphrase"
        ) from error
    return pair
