"""The JSON files of an operator in a checkpoint, with uniform errors."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from idlestate.backends.files.folder import Folder
from idlestate.errors import DamagedStateError


def read_json(checkpoint: Folder, name: str) -> Any:
    """The content of a file.

    Raises:
        DamagedStateError: it is not JSON.
    """
    data = checkpoint.read(name)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _lost(checkpoint, name, "is damaged (not valid JSON)") from error


@contextmanager
def valid(checkpoint: Folder, name: str, field: str = "") -> Iterator[None]:
    """Wraps the conversion of a file's content.

    Args:
        checkpoint, name: the file.
        field: the field, if errors do not name it.

    Raises:
        DamagedStateError: a field is not valid.
    """
    try:
        yield
    except (KeyError, ValueError) as error:
        what = f"unknown name {error}" if isinstance(error, KeyError) else str(error)
        wrong = f"is damaged ({field}: {what})" if field else f"is damaged ({what})"
        fix = ", or use the version of idlestate that wrote it"
        raise _lost(checkpoint, name, wrong, fix) from error


def missing(checkpoint: Folder, name: str) -> DamagedStateError:
    """The error of a missing file."""
    return _lost(checkpoint, name, "is missing")


def _lost(checkpoint: Folder, name: str, what: str, fix: str = "") -> DamagedStateError:
    path = checkpoint.shown(name)
    return DamagedStateError(f"{path} {what}; restore it from a copy of the checkpoint{fix}")
