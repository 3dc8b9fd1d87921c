"""Errors of the operating system about a file or a connection, in words."""


def os_problem(error: Exception) -> str:
    """The file and what is wrong with it, without Python's error number."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
