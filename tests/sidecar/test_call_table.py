"""Calls by name: how long they may be, by whom they come."""

import pytest

from idlestate.sidecar.protocol.call_table import MAX_HEADER_BYTES, CallTable
from idlestate.sidecar.protocol.errors import SidecarError
from idlestate.sidecar.protocol.message import Message

LONG = Message({"names": ["x" * 1000] * (MAX_HEADER_BYTES // 1000 + 1)}).encode()


def echo(header: object, _parts: object) -> Message:
    assert isinstance(header, dict)
    return Message({"names": len(header["names"])})


def test_a_header_that_would_keep_all_others_waiting_is_refused_by_its_length() -> None:
    with pytest.raises(SidecarError, match=r"a header of \d+ KB; the most is 2048"):
        CallTable({"echo": echo}).answer("echo", LONG)


def test_the_sidecars_own_processes_may_name_more() -> None:
    answer = CallTable({"echo": echo}, most_bytes=None).answer("echo", LONG)
    assert Message.decode(answer).header == {"names": MAX_HEADER_BYTES // 1000 + 1}
