"""Errors of the sidecar, split by what the caller does next; they cross the wire by their code."""

from typing import ClassVar

from idlestate import errors


class SidecarError(errors.IdlestateError):
    """A call to the sidecar failed; the text says what to change."""

    code: ClassVar[str] = "failed"


class DoesNotFitError(SidecarError, errors.RefusedError):
    """The call does not fit what the sidecar holds, and never will: do what the text says."""

    code = "refused"


class UnknownOperatorError(DoesNotFitError):
    """There is no operator of that uid: correct it, or declare one."""


class BusyError(SidecarError, errors.UnavailableError):
    """Not now: wait, and make the same call again."""

    code = "busy"


class GoneError(SidecarError):
    """The exchange is not known (any more): begin it anew."""

    code = "gone"


LOST = (
    "the sidecar or its worker was restarted during this exchange; if this happens repeatedly, its "
    "log has the cause (if the kernel killed it for lack of memory, use smaller batches)"
)
"""Of a `GoneError`, should it come to a person."""


class WriterFencedError(SidecarError, errors.FencedError):
    """A newer client holds this writer's name: stop this one, or give it another name.

    Its writes that were not acknowledged were applied or not.
    """

    code = "fenced"


class DamagedError(SidecarError, errors.DamagedStateError):
    """A file of the sidecar's directory is lost or damaged: bring back what the text names."""

    code = "damaged"


class DiskFullError(SidecarError, errors.StoreError):
    """The sidecar's disk is full, and the write was not applied: make room, and send it again."""

    code = "disk full"


class AwayError(SidecarError, errors.UnavailableError):
    """The sidecar does not answer: start it, or correct its address."""

    code = "away"


BY_CODE: dict[str, type[SidecarError]] = {
    each.code: each
    for each in (
        SidecarError,
        DoesNotFitError,
        BusyError,
        GoneError,
        WriterFencedError,
        DamagedError,
        DiskFullError,
        AwayError,
    )
}
