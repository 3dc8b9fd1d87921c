"""Calls by name: how long they may be, by whom they come, and what cannot be read."""

import math
from typing import Any

import pytest

from idlestate.retention.policy import right_policy
from idlestate.sidecar.protocol.call_table import MAX_HEADER_BYTES, CallTable
from idlestate.sidecar.protocol.errors import DoesNotFitError, SidecarError
from idlestate.sidecar.protocol.message import Message, MessageError

LONG = Message({"names": ["x" * 1000] * (MAX_HEADER_BYTES // 1000 + 1)}).encode()


def echo(header: object, _parts: object) -> Message:
    assert isinstance(header, dict)
    return Message({"names": len(header["names"])})


def ask(header: dict[str, Any], _parts: object) -> Message:
    right_policy(header)
    return Message({"at": int(header["at"])})


@pytest.mark.parametrize("header", [{}, {"at": []}, {"at": math.inf}, {"at": 1, "right": "ttl"}])
def test_a_header_with_a_field_of_another_type_is_refused(header: dict[str, Any]) -> None:
    with pytest.raises(DoesNotFitError, match="call ask cannot be understood"):
        CallTable({"ask": ask}).answer("ask", Message(header).encode())


@pytest.mark.parametrize("text", [b"[{}, [Infinity]]", b"[{}, [NaN]]", b"[{}, [-1]]", b"[1, []]"])
def test_a_message_whose_lengths_are_none_is_refused(text: bytes) -> None:
    with pytest.raises(MessageError):
        Message.decode(b"IDM1" + len(text).to_bytes(4) + text)


def test_a_header_that_would_keep_all_others_waiting_is_refused_by_its_length() -> None:
    with pytest.raises(SidecarError, match=r"a header of \d+ KB; the most is 2048"):
        CallTable({"echo": echo}).answer("echo", LONG)


def test_the_sidecars_own_processes_may_name_more() -> None:
    answer = CallTable({"echo": echo}, most_bytes=None).answer("echo", LONG)
    assert Message.decode(answer).header == {"names": MAX_HEADER_BYTES // 1000 + 1}
