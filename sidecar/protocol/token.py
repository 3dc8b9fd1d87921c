"""The bearer token in a file, as a header of a call contains it."""

from pathlib import Path


def read_token(file: Path) -> str:
    """The token.

    Raises:
        OSError: the file cannot be read.
        ValueError: its content is not valid in a header.
    """
    token = file.read_text(errors="replace").strip()
    if not (token.isascii() and token.isprintable()):
        raise ValueError(
            f"token file {file} contains no token; write one line of letters and digits, for "
            "example with: openssl rand -hex 32"
        )
    return token
