"""Errors of idlestate, split by what the caller does next.

Every error that idlestate raises on purpose is an `IdlestateError`; its text says what was wrong,
where, and what to change. Catch one of the kinds below: the classes that rooms raise are of these
kinds, and of Python's own (`TypeError`, `OSError`) where one fits.
"""


class IdlestateError(Exception):
    """Something that you can put right: do what the text says."""


class RefusedError(IdlestateError):
    """The call does not fit its arguments, files, session or state: change what the text names.

    Making the same call again fails again. Nothing was changed.
    """


class UnavailableError(IdlestateError):
    """A sidecar is away or busy: start it or wait, then make the same call again."""


class FencedError(IdlestateError):
    """Another client has taken over this writer's name: end this one, or give it its own name.

    The text says how many of its writes were not acknowledged; those may have been applied.
    """


class StoreError(IdlestateError, OSError):
    """A disk or store failed: free space or restore access, then make the same call again.

    Nothing was written.
    """


class DamagedStateError(IdlestateError):
    """State is lost or damaged: restore the file that the text names."""
