"""Token files as people make them, also by mistake."""

from pathlib import Path

import pytest

from idlestate.sidecar.protocol.access_control import AccessError, TokenFile
from idlestate.sidecar.protocol.connection import Address, Connection
from idlestate.sidecar.protocol.errors import SidecarError

NO_TOKENS = {
    "random bytes": b"\xff\xfe\x00" * 20,
    "two lines": b"0123456789abcdef\n0123456789abcdef\n",
    "too few characters": b"0123456789abcde",
    "letters that no header carries": "0123456789abcdefä".encode(),
}

REFUSED = (
    r"token file \S+ (contains no token; write one line|holds 15 characters; write at least 16)"
)


@pytest.mark.parametrize("content", NO_TOKENS.values(), ids=NO_TOKENS)
def test_a_file_without_a_token_is_named_to_either_side(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(AccessError, match=REFUSED):
        TokenFile(file)
    with pytest.raises(SidecarError, match=REFUSED):
        Connection(Address("127.0.0.1:1", str(file)), patience_s=0).call("hello")


def test_a_token_that_is_spoilt_while_it_is_in_force_admits_nobody(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("0123456789abcdef")
    token = TokenFile(file)
    assert token.admits("Bearer 0123456789abcdef")
    for content in NO_TOKENS.values():
        file.write_bytes(content)
        assert not token.admits(f"Bearer {content.decode(errors='replace')}")
