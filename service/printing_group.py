"""Commands that print: if standard output cannot be written, they fail with one line and no stack
trace.
"""

import os
import sys
from typing import IO, Any, NoReturn, TextIO, cast

import click

from idlestate.service.system_errors import os_problem


class PrintingGroup(click.Group):
    """A group whose commands fail if what they print is lost."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """See `click.Command`."""
        output = sys.stdout
        sys.stdout = cast("TextIO", _Output(output))
        try:
            return super().main(*args, **kwargs)
        finally:
            sys.stdout = output


class _OutputError(click.ClickException):
    """Standard output cannot be written."""

    def __init__(self, output: TextIO | None, why: str) -> None:
        super().__init__(f"standard output cannot be written: {why}")
        self._output = output

    def show(self, file: IO[Any] | None = None) -> None:
        """See `click.ClickException`."""
        super().show(file)
        if self._output is not None:  # Python writes the buffered content again at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._output.fileno())


class _Output:
    """Standard output whose errors end the command with a line.

    Args:
        output: Python's own; None if it was closed at the start. Then click would print nothing,
            and report success.
    """

    def __init__(self, output: TextIO | None) -> None:
        self._output = output

    def write(self, text: str) -> int:
        """Write a text."""
        if self._output is None:
            raise _OutputError(None, "it is closed")
        try:
            return self._output.write(text)
        except OSError as error:
            self._fail(error)

    def flush(self) -> None:
        """Write what is buffered."""
        try:
            if self._output is not None:
                self._output.flush()
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> NoReturn:
        if isinstance(error, BrokenPipeError):
            raise error  # click ends quietly if the reader has gone
        raise _OutputError(self._output, os_problem(error)) from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._output, name)
