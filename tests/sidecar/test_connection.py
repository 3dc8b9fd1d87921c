"""A client's connection: its own mistakes are reported like others; a call may be made again."""

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from idlestate.errors import (
    DamagedStateError,
    FencedError,
    RefusedError,
    StoreError,
    UnavailableError,
)
from idlestate.sidecar.protocol.call_table import CallTable
from idlestate.sidecar.protocol.connection import ERROR, Address, Connection
from idlestate.sidecar.protocol.data_plane import DataPlane
from idlestate.sidecar.protocol.errors import (
    AwayError,
    BusyError,
    CannotConnectError,
    DamagedDirectoryError,
    DiskFullError,
    DoesNotFitError,
    FailedCallError,
    GoneError,
    SidecarError,
    UnknownOperatorError,
    WriterFencedError,
)
from idlestate.sidecar.protocol.message import Message, MessageError


@pytest.mark.parametrize(
    ("secret", "words"),
    [
        ("token_file", r"missing cannot be read \(No such file or directory\): correct its path"),
        ("ca_file", "No such file or directory: .*missing"),
    ],
)
def test_a_secret_that_cannot_be_read_is_named(tmp_path: Path, secret: str, words: str) -> None:
    address = Address("127.0.0.1:1", **{secret: str(tmp_path / "missing")})
    connection = Connection(address, patience_s=0)
    with pytest.raises(CannotConnectError, match=words):
        connection.call("hello")
    connection.close()


@pytest.mark.parametrize("place", ["", "there", ":80", "there:0", "there:99999", "grpc://there:80"])
def test_an_address_that_is_none_is_refused_with_the_forms_of_one(place: str) -> None:
    with pytest.raises(CannotConnectError, match=r"pass unix:PATH, or HOST:PORT"):
        Connection(Address(place), patience_s=0).call("hello")


def test_a_socket_with_too_long_a_path_is_named_once() -> None:
    path = "/" + 200 * "x"
    with pytest.raises(CannotConnectError, match="at most 107 bytes") as refused:
        Connection(Address(f"unix:{path}"), patience_s=0).call("hello")
    assert str(refused.value).count(path) == 1


def test_an_authority_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "authority").write_text("a token, say\n")
    address = Address("127.0.0.1:1", ca_file=str(tmp_path / "authority"))
    with (
        closing(Connection(address, patience_s=0)) as connection,
        pytest.raises(CannotConnectError, match=r"authority contains no certificate"),
    ):
        connection.call("hello")


class Stopping(flight.FlightServerBase):  # type: ignore[misc]
    """Cancels the first call, as a server does that is just stopping."""

    def __init__(self, place: Path) -> None:
        super().__init__(f"grpc+unix://{place}")
        self.calls = 0

    def do_action(self, _context: Any, _action: Any) -> Iterator[Any]:
        self.calls += 1
        if self.calls == 1:
            raise flight.FlightCancelledError("stopping")
        yield flight.Result(pa.py_buffer(Message({"calls": self.calls}).encode()))


@pytest.fixture
def stopping(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    place = tmp_path_factory.mktemp("f") / "s"
    with Stopping(place):
        yield Address(f"unix:{place}")


def test_a_call_that_a_stopping_sidecar_cancels_is_made_again(stopping: Address) -> None:
    with closing(Connection(stopping)) as connection:
        assert connection.call("hello").header == {"calls": 2}


def test_who_finds_the_sidecar_away_takes_no_connection_from_another_thread(
    stopping: Address,
) -> None:
    with closing(Connection(stopping, patience_s=0)) as connection:
        of_another = connection._connected()  # which is about to make its call
        with pytest.raises(AwayError):
            connection.call("hello")
        assert len(list(of_another.do_action("hello"))) == 1
        assert connection._connected() is not of_another


@pytest.mark.parametrize(
    ("raised", "arrives", "kind"),
    [
        (FailedCallError("why"), FailedCallError, UnavailableError),
        (DoesNotFitError("why"), DoesNotFitError, RefusedError),
        (UnknownOperatorError("why"), DoesNotFitError, RefusedError),
        (MessageError("why"), DoesNotFitError, RefusedError),
        (BusyError("why"), BusyError, UnavailableError),
        (GoneError("why"), GoneError, UnavailableError),
        (WriterFencedError("why"), WriterFencedError, FencedError),
        (DamagedDirectoryError("why"), DamagedDirectoryError, DamagedStateError),
        (DiskFullError("why"), DiskFullError, StoreError),
        (AwayError("why"), AwayError, UnavailableError),
        (CannotConnectError("why"), FailedCallError, UnavailableError),
        (RuntimeError("a secret"), FailedCallError, UnavailableError),
    ],
    ids=repr,
)
def test_what_a_sidecar_reports_arrives_as_an_error_of_one_of_the_public_kinds(
    raised: Exception, arrives: type[SidecarError], kind: type[Exception], tmp_path: Path
) -> None:
    def fail(_header: object, _parts: object) -> Message:
        raise raised

    place = f"unix:{tmp_path}/s"
    with (
        DataPlane(place, CallTable({"fail": fail}), None, None),
        closing(Connection(Address(place), patience_s=0)) as connection,
        pytest.raises(arrives, match=r"why|see its log for the cause") as caught,
    ):
        connection.call("fail")
    assert type(caught.value) is arrives
    assert isinstance(caught.value, kind)


class Answering(flight.FlightServerBase):  # type: ignore[misc]
    """Answers every call with the same bytes."""

    def __init__(self, place: Path, answer: bytes) -> None:
        super().__init__(f"grpc+unix://{place}")
        self._answer = answer

    def do_action(self, _context: Any, _action: Any) -> Iterator[Any]:
        yield flight.Result(pa.py_buffer(self._answer))


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (b"IDM9 of a later version", CannotConnectError, "of this version of idlestate"),
        (Message({ERROR: "later", "text": "why"}).encode(), FailedCallError, "why"),
    ],
)
def test_an_answer_of_another_version_is_an_error_of_a_public_kind(
    answer: bytes, kind: type[SidecarError], words: str, tmp_path: Path
) -> None:
    with (
        Answering(tmp_path / "s", answer),
        closing(Connection(Address(f"unix:{tmp_path}/s"), patience_s=0)) as connection,
        pytest.raises(kind, match=words),
    ):
        connection.call("hello")


@pytest.mark.parametrize("missing", ["ca_file", "cert_file", "key_file"])
def test_half_of_what_a_certificate_takes_is_refused(missing: str) -> None:
    given = {name: __file__ for name in ("cert_file", "key_file", "ca_file") if name != missing}
    connection = Connection(Address("127.0.0.1:1", **given), patience_s=0)
    with pytest.raises(CannotConnectError, match="require each other"):
        connection.call("hello")


class Moving:
    """A clock that goes on by a second whenever it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def monotonic_s(self) -> float:
        self.asked += 1
        return float(self.asked)

    def now_ms(self) -> int:
        return 0


def test_where_nothing_ever_answered_a_call_ends_after_the_connect_timeout(tmp_path: Path) -> None:
    """The address is wrong; nobody has to wait minutes to be told."""
    clock, place = Moving(), f"unix:{tmp_path}/wrong"
    connection = Connection(Address(place), clock=clock, connect_timeout_s=3)
    with pytest.raises(AwayError, match=f"cannot connect to the sidecar at {place}: start it"):
        connection.call("hello")
    assert clock.asked < 6


def test_a_sidecar_that_has_answered_is_waited_for_as_long_as_patience_says(
    stopping: Address,
) -> None:
    clock = Moving()
    connection = Connection(stopping, 5, clock, connect_timeout_s=2)
    assert connection.call("hello").header == {"calls": 2}
    connection._forget(connection._client)
    connection.address = Address(f"{stopping.place}-stopped")
    begun = clock.asked
    with pytest.raises(AwayError, match="lost the connection to the sidecar"):
        connection.call("hello")
    assert 3 < clock.asked - begun < 8


def test_an_address_of_something_else_is_told_soon(tmp_path: Path) -> None:
    """Such as that of the control plane."""
    place = tmp_path / "control"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(place))
        other.listen()
        connection = Connection(Address(f"unix:{place}"), clock=Moving(), connect_timeout_s=0.5)
        with pytest.raises(AwayError, match="cannot connect to the sidecar"):
            connection.call("hello")
