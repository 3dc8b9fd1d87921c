"""TTL and idle-state retention for PySpark streaming jobs.

    from idlestate import configure, read_state, retain

Names are looked up when they are first used, so that `idlestate.retention` and the other rooms
that need no Spark do not load it.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "FolderSinks": "idlestate.pipeline.sinks",
    "Policy": "idlestate.retention.policy",
    "SidecarClient": "idlestate.sidecar.client.client",
    "configure": "idlestate.pipeline.session",
    "deduplicate": "idlestate.pipeline.deduplicate",
    "open_backend": "idlestate.state.opening",
    "read_state": "idlestate.pipeline.read_state",
    "reload": "idlestate.pipeline.policy_change",
    "retain": "idlestate.pipeline.retain",
    "run_to_end": "idlestate.pipeline.run_to_end",
}

__all__ = [
    "FolderSinks",
    "Policy",
    "SidecarClient",
    "configure",
    "deduplicate",
    "open_backend",
    "read_state",
    "reload",
    "retain",
    "run_to_end",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'idlestate' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
