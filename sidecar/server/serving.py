"""Serves a sidecar from a configuration file until it is stopped, and reports how it ended."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from idlestate.config.file_watch import FileWatch
from idlestate.config.loading import load_config
from idlestate.config.problems import ConfigError
from idlestate.errors import IdlestateError
from idlestate.sidecar.core.directory_lock import DirectoryTakenError
from idlestate.sidecar.protocol.exit_codes import (
    DISK_FAILED,
    IN_USE,
    REFUSED,
    STOPPED,
    code_of,
)
from idlestate.sidecar.server.server_process import Process


def serve(
    file: Path,
    tell: Callable[[str], None],
    *,
    while_input_is_open: bool = False,
    allow_shrink: bool = False,
) -> int:
    """Serve until SIGTERM or SIGINT.

    Args:
        file: the configuration file, with a `sidecar:` section.
        tell: writes a line to the log.
        allow_shrink: let the policies of this start remove any number of keys at once.
        while_input_is_open: stop when standard input is closed, for example because the parent
            died.

    Returns:
        The exit code, see `exit_codes.py`; errors were logged.
    """
    watch = FileWatch.taken(file)
    try:
        config = load_config(file)
    except ConfigError as error:
        tell(str(error))
        return REFUSED
    for warning in config.warnings:
        tell(f"WARNING {warning.render()}")
    if config.sidecar is None:
        tell(f"{file} has no `sidecar:` section; add one, such as\n\nsidecar:\n  directory: state")
        return REFUSED
    try:
        process = Process(config.allowing_shrink() if allow_shrink else config, watch, tell)
        if while_input_is_open:
            # Without standard input, its descriptor may by now belong to another file.
            has_ended = sys.stdin is None
            process.stop_when_closed(
                os.open(os.devnull, os.O_RDONLY) if has_ended else sys.stdin.fileno()
            )
        process.run()
    except DirectoryTakenError as error:
        tell(str(error))
        return IN_USE
    except IdlestateError as error:
        tell(str(error))
        return code_of(error)
    except OSError as error:
        place = error.filename or config.sidecar.directory
        tell(f"{place}: {error.strerror or error}; correct this, or set another sidecar.directory")
        return DISK_FAILED
    return STOPPED
