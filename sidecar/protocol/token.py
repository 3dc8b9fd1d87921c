"""The bearer token in a file, as a header of a call contains it."""

from pathlib import Path

MIN_CHARACTERS = 16
_EXAMPLE = "for example with: openssl rand -hex 32"


def read_token(file: Path) -> str:
    """The token.

    Raises:
        ValueError: the file cannot be read, or its content is not valid in a header, or too short.
    """
    try:
        token = file.read_text(errors="replace").strip()
    except OSError as error:
        raise ValueError(
            f"token file {file} cannot be read ({error.strerror}): correct its path or its "
            "permissions"
        ) from error
    if not (token.isascii() and token.isprintable()):
        raise ValueError(
            f"token file {file} contains no token; write one line of letters and digits, {_EXAMPLE}"
        )
    if len(token) < MIN_CHARACTERS:
        raise ValueError(
            f"token file {file} holds {len(token)} characters; write at least {MIN_CHARACTERS}, "
            f"{_EXAMPLE}"
        )
    return token
