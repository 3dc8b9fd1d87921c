"""What a sidecar reports keeps its kind, whichever call asked it."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import idlestate
from idlestate import Policy
from idlestate.backends.files.folder import Folder
from idlestate.errors import (
    DamagedStateError,
    IdlestateError,
    RefusedError,
    StoreError,
    UnavailableError,
)
from idlestate.pipeline import policy_plans
from idlestate.pipeline.policy_plans import plan_for
from idlestate.pipeline.read_sidecar_state import lives_in_sidecar
from idlestate.pipeline.sidecar_attachment import drop_operator, finish_input, owes_batch
from idlestate.pipeline.sidecar_link import SidecarLink
from idlestate.sidecar.protocol.connection import Address, Connection
from idlestate.sidecar.protocol.errors import (
    AwayError,
    BusyError,
    DamagedDirectoryError,
    DiskFullError,
    DoesNotFitError,
)
from tests.pipeline.made_checkpoint import UID, make_case, make_checkpoint
from tests.reference import Record, Rule

ADDRESS = Address("unix:away")
LINK = SidecarLink(ADDRESS, UID)
KINDS: list[tuple[Exception, type[IdlestateError]]] = [
    (AwayError("why"), UnavailableError),
    (BusyError("why"), UnavailableError),
    (DamagedDirectoryError("why"), DamagedStateError),
    (DiskFullError("why"), StoreError),
    (DoesNotFitError("why"), RefusedError),
]
NO_SESSION: Any = SimpleNamespace()


def planned_from(checkpoint: Path) -> object:
    return plan_for(Folder(str(checkpoint)), UID, Policy(ttl_ms=1), 0)


CALLS: dict[str, Callable[[Path], object]] = {
    "explain": lambda _: idlestate.explain(["a"], sidecar=ADDRESS, uid=UID),
    "plan": lambda _: idlestate.plan(Policy(ttl_ms=1), sidecar=ADDRESS),
    "plan of a checkpoint": planned_from,
    "read_state": lambda _: lives_in_sidecar(NO_SESSION, LINK),
    "finish": lambda path: finish_input(Folder(str(path)), LINK, sweep=True),
    "owes": lambda path: owes_batch(Folder(str(path)), LINK),
    "drop": lambda _: drop_operator(ADDRESS, UID),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(("reported", "kind"), KINDS, ids=repr)
def test_what_a_sidecar_reports_keeps_its_kind(
    call: Callable[[Path], object],
    reported: Exception,
    kind: type[IdlestateError],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_args: object) -> None:
        raise reported

    make_checkpoint(tmp_path, make_case(Rule(ttl_ms=40), [[Record((0,), 1, (1,))]], [0], "int64"))
    monkeypatch.setattr(policy_plans, "link_of", lambda *_: LINK)
    monkeypatch.setattr(Connection, "call", fail)
    with pytest.raises(kind, match="why"):
        call(tmp_path)
