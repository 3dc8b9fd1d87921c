"""Errors of idlestate, split by what the caller does next.

Every error that idlestate raises on purpose is an `IdlestateError`; its text says what was wrong,
where, and what to change.
"""


class IdlestateError(Exception):
    """Something that you can put right: do what the text says."""


class RefusedError(IdlestateError):
    """The query does not fit its session, checkpoint or sink: change what the text names."""


class DamagedStateError(IdlestateError):
    """State is lost or damaged: restore the file that the text names."""


class StoreError(IdlestateError, OSError):
    """A store that holds a checkpoint or runs cannot be reached: check what the text names."""
