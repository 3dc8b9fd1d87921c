"""A client's connection: what is wrong on its own side is told like the rest."""

from pathlib import Path

import pytest

from idlestate.backends.sidecar.connection import Address, Connection
from idlestate.backends.sidecar.errors import SidecarError


@pytest.mark.parametrize("secret", ["token_file", "ca_file"])
def test_a_secret_that_cannot_be_read_is_named(tmp_path: Path, secret: str) -> None:
    address = Address("127.0.0.1:1", **{secret: str(tmp_path / "missing")})
    connection = Connection(address, patience_s=0)
    with pytest.raises(SidecarError, match=r"No such file or directory: .*missing"):
        connection.call("hello")
    connection.close()
