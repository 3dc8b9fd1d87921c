"""The sidecar: a process beside the job that keeps the state of operators."""

from typing import TYPE_CHECKING

from idlestate._lazy import lazily

if TYPE_CHECKING:
    from idlestate.pipeline.expired_source import ExpiredSource as ExpiredSource
    from idlestate.sidecar.client.client import SidecarClient as SidecarClient
    from idlestate.sidecar.client.pending_writes import WriteResult as WriteResult
    from idlestate.sidecar.protocol.connection import Address as Address
else:
    __getattr__ = lazily(
        __name__,
        {
            "idlestate.pipeline.expired_source": ["ExpiredSource"],
            "idlestate.sidecar.client.client": ["SidecarClient"],
            "idlestate.sidecar.client.pending_writes": ["WriteResult"],
            "idlestate.sidecar.protocol.connection": ["Address"],
        },
    )

__all__ = [
    "Address",
    "ExpiredSource",
    "SidecarClient",
    "WriteResult",
]
