"""Advice over HTTP is that of the command, and no log can harm the sidecar."""

import errno
import io
import json
import sys
from email.message import Message
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from idlestate import advise
from idlestate.advisor import files
from idlestate.errors import RefusedError
from idlestate.sidecar.protocol.exit_codes import BROKEN, OUT_OF_MEMORY, REFUSED
from idlestate.sidecar.server import advice_process, advising
from idlestate.sidecar.server.advising import advise_on
from idlestate.web.http_reply import Reply
from idlestate.web.http_server import Request
from tests.sidecar.sidecar_process import Sidecar

PARQUET, CSV = "application/vnd.apache.parquet", "text/csv"
ASKED = "key=user&event_time=at"


def events() -> pa.Table:
    times = np.concatenate([key * 3_600_000 + 60_000 * np.arange(10) ** 3 for key in range(50)])
    users = np.repeat(np.arange(50), 10)
    return pa.table({"user": users, "at": pa.array(times).cast(pa.timestamp("ms", "UTC"))})


def parquet() -> bytes:
    file = io.BytesIO()
    pq.write_table(events(), file)
    return file.getvalue()


def ask(body: bytes, query: str = ASKED, kind: str = PARQUET) -> tuple[int, dict[str, object]]:
    headers = Message()
    headers["Content-Type"] = kind
    reply: Reply = advise_on(Request("POST", "/advise", query, headers, body))
    told: dict[str, object] = json.loads(reply.body)
    return reply.status, told


def test_advice_is_that_of_the_function() -> None:
    query = f"{ASKED}&window=30m&window=30m/45m&key_budget=20"
    expected = advise(
        events(), key="user", event_time="at", windows=["30m", "30m/45m"], key_budget=20
    )
    assert ask(parquet(), query) == (200, json.loads(json.dumps(expected.to_json())))
    file = io.BytesIO()
    pyarrow.csv.write_csv(events(), file)
    assert ask(file.getvalue(), query, CSV)[0] == 200


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("event_time=at", "key is missing; name the column as ?key=..."),
        ("key=user", "event_time is missing"),
        (f"{ASKED}&event_time=at", "event_time is given twice"),
        (f"{ASKED}&html=/tmp/x", "unknown field 'html'"),
        (f"{ASKED}&spark=1", "unknown field 'spark'"),
        (f"{ASKED}&window=a%00b", "window contains a null character"),
        ("key=%ff&event_time=at", "the query is not UTF-8"),
    ],
)
def test_questions_that_make_no_sense_are_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, query: str, told: str
) -> None:
    monkeypatch.setattr(advising.subprocess, "Popen", None)
    status, answer = ask(b"", query)
    assert status == 400
    assert told in str(answer["error"])


def test_a_log_that_cannot_be_read_is_one_line_without_paths() -> None:
    status, answer = ask(b"no parquet at all")
    assert status == 400
    assert str(answer["error"]).startswith("the log cannot be read")
    assert "idlestate-advise" not in str(answer["error"])
    status, answer = ask(b"user,at\n1,2026-01-01\n", "key=no&event_time=--html=/tmp/x", CSV)
    assert status == 400
    assert "column" in str(answer["error"])
    assert ask(b"", kind="text/plain")[0] == 415


@pytest.mark.parametrize(
    ("field", "told"),
    [
        ("key_budget=x", "key_budget 'x' is not valid; pass a whole number above 0"),
        ("key_budget=0", "key_budget 0 is not valid"),
        ("bytes_per_key=x", "bytes_per_key 'x' is not a number; pass one such as 100"),
        ("window=Error: é", '"Error: é" is not a valid duration'),
    ],
)
def test_a_refusal_is_what_the_advisor_says(field: str, told: str) -> None:
    status, answer = ask(parquet(), f"{ASKED}&{field}")
    assert status == 400
    assert told in str(answer["error"])


def test_a_log_that_takes_too_much_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advising, "MAX_SECONDS", 0)
    assert ask(parquet())[0] == 503
    monkeypatch.undo()
    monkeypatch.setattr(advising, "MAX_MEMORY_BYTES", 64 << 20)
    status, answer = ask(parquet())
    assert (status, "more memory" in str(answer["error"])) == (503, True)


@pytest.mark.parametrize(
    "end",
    [f"os._exit({OUT_OF_MEMORY})", "os._exit(1)", "os._exit(127)", "os.abort()"],
)
def test_an_end_that_the_process_did_not_choose_is_a_lack_of_memory(
    monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    status, answer = ask_of(f"import os; {end}", monkeypatch)
    assert (status, "more memory" in str(answer["error"])) == (503, True)


def test_words_in_a_message_do_not_change_the_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "Traceback: Memory allocation, Error: MemoryError"
    code = f"import sys; sys.stderr.write({said!r}); sys.exit({REFUSED})"
    assert ask_of(code, monkeypatch) == (400, {"error": said})


def test_an_unexpected_error_is_one_for_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    code = f"import sys; sys.stderr.write('the stack trace'); sys.exit({BROKEN})"
    with pytest.raises(RuntimeError, match="the stack trace"):
        ask_of(code, monkeypatch)


def ask_of(code: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, dict[str, object]]:
    """Ask with other code in the place of the process."""
    start = advising.subprocess.Popen

    def other(_: object, **how: object) -> object:
        return start([sys.executable, "-S", "-c", code], **how)

    monkeypatch.setattr(advising.subprocess, "Popen", other)
    return ask(parquet())


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MemoryError(), OUT_OF_MEMORY),
        (ImportError("failed to map segment"), OUT_OF_MEMORY),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), OUT_OF_MEMORY),
        (OSError(errno.EIO, "Input/output error"), BROKEN),
        (ValueError("unexpected"), BROKEN),
        (RefusedError("no such column"), REFUSED),
    ],
)
def test_the_exit_code_tells_the_outcome(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, code: int
) -> None:
    def fail(_: bytes) -> str:
        raise error

    monkeypatch.setattr(advice_process, "_advice", fail)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"{}\n")))
    assert advice_process.main() == code
    said = capsys.readouterr().err
    assert (said == "no such column") == (code == REFUSED)
    assert ("Traceback" in said) == (code == BROKEN)


def test_a_log_that_memory_does_not_suffice_to_read_is_no_unreadable_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: object, **__: object) -> object:
        raise pa.ArrowMemoryError("malloc of size 64 failed")

    log = tmp_path / "log.parquet"
    log.write_bytes(parquet())
    line = json.dumps({"log": str(log), "fields": {"key": ["user"], "event_time": "at"}})
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(line.encode())))
    monkeypatch.setattr(files.ds, "dataset", fail)
    assert advice_process.main() == OUT_OF_MEMORY


def test_a_sidecar_takes_a_log_up_to_its_size(folder: Path) -> None:
    sidecar = Sidecar(folder).start()
    try:
        headers = {"Content-Type": PARQUET}
        status, answer = sidecar.ask(f"/advise?{ASKED}", "POST", parquet(), **headers)
        assert (status, answer["key"]) == (200, ["user"])
        padded = b"user,at\n1,2026-01-01T00:00:00Z\n" + b" " * 40_000  # beyond other requests
        assert sidecar.ask(f"/advise?{ASKED}", "POST", padded, **{"Content-Type": CSV})[0] != 413
        too_long = {"Content-Length": str(advising.MAX_LOG_BYTES + 1), **headers}
        assert sidecar.ask(f"/advise?{ASKED}", "POST", **too_long)[0] == 413
        assert sidecar.ask("/-/reload", "POST", b" " * 40_000)[0] == 413
        assert sidecar.ask("/advise")[0] == 405
    finally:
        assert sidecar.stop() == 0
