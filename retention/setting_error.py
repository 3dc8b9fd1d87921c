"""The error of a policy or a time to live that cannot be as it is given."""

from idlestate.errors import RefusedError


class SettingError(RefusedError, ValueError):
    """A setting is not valid: pass what the text says."""
