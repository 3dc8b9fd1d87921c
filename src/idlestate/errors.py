"""Errors of idlestate, one class for each reaction of the caller.

Every error that idlestate raises deliberately is an `IdlestateError`; its text says what was wrong,
where, and how to fix it. Catch one of the classes below. Rooms raise subclasses of them, which also
derive from a built-in class (`TypeError`, `OSError`) where one fits.
"""


class IdlestateError(Exception):
    """A problem that the caller can fix; the text says how."""


class RefusedError(IdlestateError):
    """The arguments, files, session or state do not allow the call: change what the text names.

    The same call would fail again. Nothing was changed.

    Attributes:
        about: the column, aggregate or argument that is not valid, as the call names it; empty for
            the input as a whole; None for anything else. Queries find its place in their text.
    """

    def __init__(self, *args: object, about: str | None = None) -> None:
        """Take the text, and what it is about."""
        super().__init__(*args)
        self.about = about


class UnavailableError(IdlestateError):
    """A sidecar or Spark is unavailable, busy or failed: start it or wait, then retry the call.

    If it failed, its log has the cause.
    """


class FencedError(IdlestateError):
    """Another client took over this writer's name: stop this one, or give it a different name.

    The text says how many of its writes were not acknowledged; those may have been applied.
    """


class StoreError(IdlestateError, OSError):
    """A disk or store failed: free space or restore access, then retry the call.

    Nothing was written.
    """


class DamagedStateError(IdlestateError):
    """State is lost or damaged: restore the file that the text names from a backup."""
