"""A sidecar over several worker processes: the same results, and deaths that nobody notices."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from idlestate.sidecar.protocol.connection import Address, Connection
from idlestate.sidecar.protocol.errors import AwayError
from idlestate.sidecar.protocol.rows_by_range import split_rows
from tests.patience import PATIENCE_S
from tests.sidecar.sidecar_process import OPERATOR, UID, Sidecar, wait_for
from tests.stopped_process import stop

LARGE = 20_000
"""Rows of a write that clients take to the workers themselves."""


def rows_of(count: int, begin: int = 0, amount: int = 1) -> pa.Table:
    users = [f"user-{number:012}" for number in range(begin, begin + count)]
    return pa.table({"user": users, "amount": pa.array([amount] * count, pa.int64())})


def found_in(client: Any, count: int) -> list[dict[str, Any]]:
    lives = client.get_many(rows_of(count).select(["user"])).sort_by("user")
    lives = lives.filter(lives["n"].is_valid())
    return lives.select(["user", "n", "total"]).to_pylist()


def of_range(at: int, ranges: int = 2, shards: int = 4) -> str:
    """A user whose shard is in a range."""
    rows = split_rows(rows_of(100), ("user",), shards, ranges)[at]
    user: str = rows.column("user")[0].as_py()
    return user


def metric(sidecar: Sidecar, name: str) -> float:
    text = sidecar.ask("/metrics")[1]
    return float(next(line for line in text.splitlines() if line.startswith(name)).split()[1])


def play(sidecar: Sidecar) -> list[dict[str, Any]]:
    with sidecar.client("w") as client:
        client.add_many(rows_of(LARGE))
        client.add_many(rows_of(500, 100, amount=3))
        client.put_many(rows_of(LARGE // 2, 50, amount=7))
        client.add_many(rows_of(LARGE, LARGE // 2, amount=2))
        client.touch(rows_of(LARGE).select(["user"]))
        client.remove_many(rows_of(10).select(["user"]))
        return found_in(client, 2 * LARGE)


@pytest.mark.parametrize("backend", ["heap", pytest.param("rocksdb", marks=pytest.mark.long)])
def test_results_are_those_of_one_process(made: Any, backend: str) -> None:
    alone, spread = made(backend=backend), made(backend=backend, workers=2)
    expected = play(alone.start())
    assert len(expected) == LARGE // 2 + LARGE - 10
    assert play(spread.start()) == expected
    assert len(spread.workers()) == 2
    folder = spread.folder / "state" / f"{backend}-ranges" / "2"
    sizes = [sum(p.stat().st_size for p in each.rglob("*")) for each in sorted(folder.iterdir())]
    assert len(sizes) == 2
    # A log that was just rewritten has about half the bytes of one that is about to be.
    assert min(sizes) > max(sizes) / 4, "both have their part"
    assert metric(spread, "idlestate_sidecar_workers") == 2
    assert spread.ask("/readyz")[0] == 200
    (full,) = spread.ask("/operators")[1]
    assert full["live_keys"] == len(expected)
    pids = spread.workers()
    assert spread.stop() == 0
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
    spread.start()
    with spread.client() as client:
        assert found_in(client, 2 * LARGE) == expected


def test_a_worker_that_dies_is_started_again_while_the_other_goes_on(made: Any) -> None:
    sidecar = made(workers=2).start()
    first, second = of_range(0), of_range(1)
    with sidecar.client("w") as client, sidecar.client("v") as other:
        client.add_many({"user": [first, second], "amount": [1, 1]})
        dead, alive = sidecar.workers()[1], sidecar.workers()[0]
        stop(dead)  # its socket stays, but it no longer answers
        os.kill(dead, signal.SIGKILL)
        for _ in range(3):
            client.add_many({"user": [first], "amount": [1]})
        assert sidecar.ask("/healthz")[0] == 200
        other.add_many({"user": [second], "amount": [1]})
        found = client.get_many({"user": [first, second]}).sort_by("n")
        assert found.column("n").to_pylist() == [2, 4]
        assert alive in sidecar.workers()
        assert dead not in sidecar.workers()
        assert "worker 1 ended with -9 and is restarted" in sidecar.next_line()
        assert metric(sidecar, "idlestate_sidecar_worker_restarts_total") == 1
        wait_for(lambda: sidecar.ask("/readyz")[0] == 200)


@pytest.mark.parametrize("backend", [pytest.param("heap", marks=pytest.mark.long), "rocksdb"])
def test_kills_of_workers_lose_and_double_no_write(made: Any, backend: str) -> None:
    sidecar = made(backend=backend, workers=2).start()
    failed: list[BaseException] = []
    written = [0, 0]
    done = threading.Event()

    def write(writer: int) -> None:
        try:
            with sidecar.client(f"w{writer}") as client:
                while not done.is_set():
                    client.add_many(rows_of(LARGE if writer else 50))
                    written[writer] += 1
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            failed.append(error)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in (0, 1)]
    for thread in threads:
        thread.start()
    for kill in range(5):
        before = list(written)
        wait_for(
            lambda before=before: failed or (before[0] < written[0] and before[1] < written[1])
        )
        wait_for(lambda: failed or len(sidecar.workers()) == 2)
        os.kill(sidecar.workers()[kill % 2], signal.SIGKILL)
    done.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert failed == []
    with sidecar.client() as client:
        counts = [row["n"] for row in found_in(client, LARGE)]
    assert counts == [sum(written)] * 50 + [written[1]] * (LARGE - 50)
    assert sidecar.stop() == 0


@pytest.mark.parametrize("backend", ["heap", pytest.param("rocksdb", marks=pytest.mark.long)])
def test_another_number_of_workers_finds_everything(made: Any, backend: str) -> None:
    short = {UID: OPERATOR, "short": OPERATOR | {"policy": "short"}}
    sidecar = made(backend=backend, operators=short, sweep_every="20ms").start()
    expected = play(sidecar)
    with sidecar.client(uid="short") as client:
        client.add_many(rows_of(300))
        wait_for(lambda: sum(map(len, client.expired())) == 300)
        records = pa.concat_tables(client.expired()).to_pylist()
    for workers, how in ((2, signal.SIGTERM), (3, signal.SIGKILL), (1, signal.SIGTERM)):
        sidecar.stop(how)
        sidecar.write_file(workers=workers)
        sidecar.start()
        with sidecar.client() as client:
            assert found_in(client, 2 * LARGE) == expected
        with sidecar.client(uid="short") as client:
            assert pa.concat_tables(client.expired()).to_pylist() == records
        folders = list((sidecar.folder / "state" / f"{backend}-ranges").glob("*"))
        assert [each.name for each in folders] == ([] if workers == 1 else [str(workers)])


def test_workers_end_with_a_process_that_is_killed(made: Any) -> None:
    sidecar = made(workers=2).start()
    with sidecar.client("w") as client:
        client.add_many(rows_of(LARGE))
        pids = sidecar.workers()
        sidecar.stop(signal.SIGKILL)
        wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
        sidecar.start()
        client.add_many(rows_of(LARGE))
        assert {row["n"] for row in found_in(client, LARGE)} == {2}
    assert sidecar.stop() == 0


def free_ports_in_a_row(count: int) -> int:
    """The first of them."""
    while True:
        with contextlib.ExitStack() as held, contextlib.suppress(OSError, OverflowError):
            port: int = held.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
            for more in range(1, count):
                held.enter_context(socket.create_server(("127.0.0.1", port + more)))
            return port


def test_workers_on_ports_ask_for_the_token_too(made: Any) -> None:
    port = free_ports_in_a_row(3)
    sidecar = made(workers=2, data=f"127.0.0.1:{port}")
    token = sidecar.folder / "token"
    token.write_text("0123456789abcdef0123\n")
    sidecar.settings["token_file"] = str(token)
    sidecar.start()
    with sidecar.client(place=Address(f"127.0.0.1:{port}", str(token))) as client:
        client.add_many(rows_of(LARGE))
        assert len(found_in(client, LARGE)) == LARGE
        stranger = client._routes.to_range(1)
        assert stranger.address.place == f"127.0.0.1:{port + 2}"
        stranger.address = Address(stranger.address.place)
        with pytest.raises(Exception, match="requires authentication"):
            stranger.call("close", {"handle": "x"})


def test_another_number_of_workers_needs_a_restart(made: Any) -> None:
    sidecar = made(workers=2).start()
    sidecar.write_file(workers=3)
    status, answer = sidecar.ask("/-/reload", "POST")
    assert status == 400
    assert "sidecar.workers: changed, which needs a restart" in answer["error"]


def test_policies_read_again_hold_on_all_workers(made: Any) -> None:
    sidecar = made(workers=2, sweep_every="20ms").start()
    with sidecar.client() as client:
        client.add_many(rows_of(LARGE))
        sidecar.write_file(operators={UID: OPERATOR | {"policy": "short"}})
        assert sidecar.ask("/-/reload", "POST")[0] == 200
        wait_for(lambda: sum(map(len, client.expired())) == LARGE)
        assert found_in(client, LARGE) == []


def test_nobody_has_to_listen_to_what_a_sidecar_says(made: Any) -> None:
    """Its log's disk may be full, or its terminal gone: workers are started again all the same."""
    sidecar = made(workers=2).start()
    assert sidecar.process is not None
    assert sidecar.process.stderr is not None
    sidecar.process.stderr.close()
    dead = sidecar.workers()[1]
    os.kill(dead, signal.SIGKILL)
    wait_for(lambda: dead not in sidecar.workers() and sidecar.ask("/readyz")[0] == 200)
    sidecar.write_file(operators={UID: OPERATOR | {"policy": "short"}})
    sidecar.process.send_signal(signal.SIGHUP)
    wait_for(lambda: sidecar.ask("/policies")[1][UID]["idle_min_ms"] == 50)
    assert sidecar.ask("/healthz")[0] == 200
    assert sidecar.stop() == 0


HANGING = """
import sys, threading
from idlestate.sidecar.core.data_calls import Calls
from idlestate.service import cli
from idlestate.sidecar.server import server_process

def hang(*_):
    print("it hangs", file=sys.stderr, flush=True)
    threading.Event().wait()

Calls._hello = hang
server_process._DRAIN_S = server_process._END_S = 0.1
cli.main(["serve", sys.argv[1]])
"""
"""A sidecar with a call that never ends, and little patience."""


def test_what_hangs_is_cut_off_when_a_sidecar_stops(made: Any) -> None:
    sidecar = made(workers=2)
    sidecar.write_file()
    sidecar.process = subprocess.Popen(
        [sys.executable, "-c", HANGING, str(sidecar.file)], stderr=subprocess.PIPE, text=True
    )
    assert sidecar.next_line().startswith("data at ")
    workers = sidecar.workers()
    stop(workers[0])

    def ask() -> None:
        with suppress(AwayError):
            Connection(Address(f"unix:{sidecar.data_socket}"), patience_s=0).call("hello")

    asking = threading.Thread(target=ask)
    asking.start()
    assert sidecar.next_line() == "it hangs\n"
    sidecar.process.terminate()
    assert sidecar.process.wait(PATIENCE_S) == 1
    assert "were aborted; all acknowledged writes are kept" in sidecar.next_line()
    sidecar.process.stderr.close()
    asking.join(PATIENCE_S)
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
