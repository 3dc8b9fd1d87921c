"""Errors of the sidecar, split by what the caller does next; they cross the wire by their code."""

from typing import ClassVar

from idlestate import errors


class SidecarError(errors.IdlestateError):
    """The root of all; only its subclasses are raised, each of one of the public kinds.

    Attributes:
        code: what names the class on the wire; one without its own arrives as `FailedCallError`.
    """

    code: ClassVar[str] = "failed"


class FailedCallError(SidecarError, errors.UnavailableError):
    """A call failed inside the sidecar: see its log for the cause, then repeat the call."""


class DoesNotFitError(SidecarError, errors.RefusedError):
    """The call does not fit the sidecar's state, and never will: do what the text says."""

    code = "refused"


class UnknownOperatorError(DoesNotFitError):
    """No operator has this uid: correct it, or declare the operator."""


class BusyError(SidecarError, errors.UnavailableError):
    """Temporarily not possible: wait, and repeat the call."""

    code = "busy"


class GoneError(SidecarError, errors.UnavailableError):
    """The exchange is unknown or expired: start a new one, by repeating the call."""

    code = "gone"


LOST = (
    "the sidecar or its worker was restarted during this exchange; if this happens repeatedly, its "
    "log has the cause (if the kernel killed it for lack of memory, use smaller batches)"
)
"""The text of a `GoneError`, if it is shown."""


class WriterFencedError(SidecarError, errors.FencedError):
    """A newer client holds this writer's name: stop this one, or give it another name.

    Its unacknowledged writes may or may not have been applied.
    """

    code = "fenced"


class DamagedDirectoryError(SidecarError, errors.DamagedStateError):
    """A file of the sidecar's directory is lost or damaged: restore what the text names."""

    code = "damaged"


class DiskFullError(SidecarError, errors.StoreError):
    """The sidecar's disk is full, and the write was not applied: free space, and send it again."""

    code = "disk full"


class AwayError(SidecarError, errors.UnavailableError):
    """The sidecar does not answer: start it, or correct its address."""

    code = "away"


class CannotConnectError(SidecarError, errors.RefusedError):
    """The address, token or certificates do not allow a call: correct what the text names."""


BY_CODE: dict[str, type[SidecarError]] = {
    each.code: each
    for each in (
        FailedCallError,
        DoesNotFitError,
        BusyError,
        GoneError,
        WriterFencedError,
        DamagedDirectoryError,
        DiskFullError,
        AwayError,
    )
}
