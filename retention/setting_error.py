"""Errors of settings and arguments that are not valid."""

from idlestate.errors import RefusedError


class SettingError(RefusedError, ValueError):
    """A setting is not valid: pass what the text says."""


class WrongTypeError(RefusedError, TypeError):
    """An argument has another type: pass what the text says."""
