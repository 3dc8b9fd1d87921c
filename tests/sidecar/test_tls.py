"""Both planes over TCP with certificates: who has none, or the wrong one, is told nothing."""

import http.client
import shutil
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from idlestate.sidecar.protocol.connection import Address, Connection
from idlestate.sidecar.protocol.errors import CannotConnectError, SidecarError
from idlestate.sidecar.protocol.message import PROTOCOL
from tests.patience import PATIENCE_S
from tests.sidecar.sidecar_process import COMMAND, UID, Sidecar, said

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
TOKEN = "0123456789abcdef0123"


def openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


def make_authority(folder: Path, name: str) -> Path:
    key, cert = folder / f"{name}.key", folder / f"{name}.pem"
    openssl(
        *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-keyout", key),
        *("-out", cert, "-subj", f"/CN={name}"),
    )
    return cert


def make_certificate(folder: Path, name: str, authority: Path) -> Path:
    key, request, cert = (folder / f"{name}.{end}" for end in ("key", "csr", "pem"))
    names = folder / f"{name}.ext"
    names.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl(
        *("req", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", request),
        *("-subj", f"/CN={name}"),
    )
    openssl(
        *(
            "x509",
            "-req",
            "-in",
            request,
            "-CA",
            authority,
            "-CAkey",
            authority.with_suffix(".key"),
        ),
        *("-CAcreateserial", "-days", "1", "-out", cert, "-extfile", names),
    )
    return cert


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certs")
    authority = make_authority(folder, "authority")
    stranger = make_authority(folder, "stranger")
    make_certificate(folder, "server", authority)
    make_certificate(folder, "client", authority)
    make_certificate(folder, "intruder", stranger)
    (folder / "token").write_text(TOKEN)
    locked = ("rsa", "-aes256", "-passout", "pass:secret", "-out", folder / "locked.key")
    openssl(*locked, "-in", folder / "server.key")
    return folder


@pytest.fixture
def sidecar(certs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    made = Sidecar(
        tmp_path_factory.mktemp("t"),
        data="127.0.0.1:0",
        control="127.0.0.1:0",
        token_file=str(certs / "token"),
        tls={
            "cert_file": str(certs / "server.pem"),
            "key_file": str(certs / "server.key"),
            "client_ca_file": str(certs / "authority.pem"),
        },
    )
    line = made.start_told().removeprefix("data at ").strip()
    made.data_place, _, made.control_url = line.partition(", control at https://")
    yield made
    assert made.stop() == 0


def address(sidecar: Sidecar, certs: Path, client: str | None, *, token: bool = True) -> Address:
    return Address(
        sidecar.data_place.replace("127.0.0.1", "localhost"),
        str(certs / "token") if token else None,
        str(certs / "authority.pem"),
        str(certs / f"{client}.pem") if client else None,
        str(certs / f"{client}.key") if client else None,
    )


def status(sidecar: Sidecar, certs: Path, client: str | None, token: str = TOKEN) -> int:
    context = ssl.create_default_context(cafile=str(certs / "authority.pem"))
    if client:
        context.load_cert_chain(certs / f"{client}.pem", certs / f"{client}.key")
    host, _, port = sidecar.control_url.rpartition(":")
    connection = http.client.HTTPSConnection(host, int(port), timeout=PATIENCE_S, context=context)
    try:
        connection.request("GET", "/healthz", headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().status
    finally:
        connection.close()


def test_who_has_certificate_and_token_comes_in(sidecar: Sidecar, certs: Path) -> None:
    hello = Connection(address(sidecar, certs, "client"), patience_s=PATIENCE_S).call("hello")
    assert hello.header["protocol"] == PROTOCOL
    assert status(sidecar, certs, "client") == 200


def test_the_command_line_shows_certificate_and_token(sidecar: Sidecar, certs: Path) -> None:
    own = ["--cert-file", str(certs / "client.pem"), "--key-file", str(certs / "client.key")]
    secrets = [
        "--ca-file",
        str(certs / "authority.pem"),
        "--token-file",
        str(certs / "token"),
        *own,
    ]
    place = ["--sidecar", sidecar.data_place.replace("127.0.0.1", "localhost")]
    url = f"https://{sidecar.control_url}"
    for words, code, told in (
        (["operator", "release", UID, *place, *secrets], 0, "released"),
        (["clock", "accept", *place, *secrets], 0, "accepted"),
        (["health", url.replace("127.0.0.1", "localhost"), *secrets], 0, "ready"),
        (["health", url, *secrets[2:]], 1, ""),  # the token is not shown to whoever answers
        (["health", url, *own], 1, ""),
        (["health", "--live", url, *own], 0, "authentication required"),  # it lives
        (["health", "--live", url], 1, ""),
    ):
        done = said(*words)
        assert done.exit_code == code, done.stderr
        assert told in done.stdout


@pytest.mark.parametrize("client", [None, "intruder"])
def test_without_the_right_certificate_there_is_no_answer(
    sidecar: Sidecar, certs: Path, client: str | None
) -> None:
    with pytest.raises(SidecarError):
        Connection(address(sidecar, certs, client), patience_s=0).call("hello")
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
        status(sidecar, certs, client)
    assert status(sidecar, certs, "client") == 200


def test_a_certificate_alone_is_not_enough_where_a_token_is_asked_for(
    sidecar: Sidecar, certs: Path
) -> None:
    with pytest.raises(CannotConnectError, match="requires authentication"):
        Connection(address(sidecar, certs, "client", token=False), patience_s=0).call("hello")
    assert status(sidecar, certs, "client", "wrong") == 401


def test_plain_text_is_not_understood(sidecar: Sidecar) -> None:
    with pytest.raises(SidecarError, match="if it uses TLS, pass its certificate authority"):
        Connection(Address(sidecar.data_place), patience_s=0).call("hello")
    connection = http.client.HTTPConnection(sidecar.control_url, timeout=PATIENCE_S)
    connection.request("GET", "/healthz")
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        connection.getresponse()
    connection.close()


def test_who_speaks_plain_text_fills_no_log(sidecar: Sidecar) -> None:
    host, _, port = sidecar.data_place.rpartition(":")
    for _ in range(3):
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as link:
            link.sendall(b"GET / HTTP/1.1\r\n\r\n" * 10)
            while link.recv(4096):
                pass
    assert sidecar.process is not None
    sidecar.process.send_signal(signal.SIGHUP)
    assert sidecar.next_line() == f"{sidecar.file} was reloaded\n"


@pytest.mark.parametrize(
    ("wrong", "name", "told"),
    [
        pytest.param("cert_file", "missing", "No such file or directory", marks=pytest.mark.long),
        pytest.param("key_file", "missing", "No such file or directory", marks=pytest.mark.long),
        ("client_ca_file", "missing", "No such file or directory"),
        pytest.param("cert_file", "token", "do not match", marks=pytest.mark.long),
        ("key_file", "client.key", "KEY_VALUES_MISMATCH"),
        ("client_ca_file", "token", "contains no certificate"),
        ("key_file", "locked.key", "without a passphrase"),
    ],
)
def test_a_certificate_that_cannot_be_used_is_named(
    certs: Path, tmp_path: Path, wrong: str, name: str, told: str
) -> None:
    """Before workers use it, which only learn that they do not start."""
    files = {
        "cert_file": certs / "server.pem",
        "key_file": certs / "server.key",
        "client_ca_file": certs / "authority.pem",
        wrong: certs / name,
    }
    tls = {each: str(file) for each, file in files.items()}
    made = Sidecar(tmp_path, data="127.0.0.1:0", tls=tls, workers=2)
    made.write_file()
    done = subprocess.run(
        [*COMMAND, "serve", str(made.file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert str(certs / name) in done.stderr
    assert told in done.stderr


def test_a_certificate_that_health_cannot_use_is_named(certs: Path) -> None:
    own = ["--cert-file", str(certs / "token")]
    done = said("health", "https://127.0.0.1:1", *own)
    assert done.exit_code == 1
    assert str(certs / "token") in done.stderr
