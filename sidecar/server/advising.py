"""Advice on an uploaded log of events: `POST /advise?key=...&event_time=...`.

A process of its own (`advice_process.py`) analyzes the log, so this takes no memory and little time
from the sidecar. The log is not stored.
"""

import json
import resource
import subprocess
import sys
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import parse_qsl

from idlestate.sidecar.protocol.exit_codes import ADVISED, BROKEN, REFUSED
from idlestate.web.http_reply import JSON, Reply, error_reply
from idlestate.web.http_server import Request

MAX_LOG_BYTES: Final = 16 << 20
MAX_SECONDS: Final = 60
MAX_MEMORY_BYTES: Final = 4 << 30

_ENDINGS: Final = {
    "application/vnd.apache.parquet": "parquet",
    "application/x-ndjson": "jsonl",
    "text/csv": "csv",
}
_REPEATED: Final = ("key", "window")
_SINGLE: Final = ("event_time", "key_budget", "batches", "delay", "bytes_per_key", "null_key")


def advise_on(request: Request) -> Reply:
    """The advice as JSON, as `idlestate advise --format json` prints it."""
    kind = request.headers.get_content_type()
    if kind not in _ENDINGS:
        text = f"Content-Type {kind!r} is not a log; send {', '.join(_ENDINGS)}"
        return error_reply(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, text)
    try:
        fields = _fields(request.query)
    except ValueError as error:
        return error_reply(HTTPStatus.BAD_REQUEST, str(error))
    with TemporaryDirectory(prefix="idlestate-advise-") as folder:
        log = Path(folder) / f"log.{_ENDINGS[kind]}"
        log.write_bytes(request.body)
        return _judge(log, fields)


def _fields(query: str) -> dict[str, str | list[str]]:
    """The fields of a query by their names; those that may be repeated as lists.

    Raises:
        ValueError: a field is unknown, missing or repeated.
    """
    try:
        given = parse_qsl(query, keep_blank_values=True, errors="strict")
    except UnicodeDecodeError as error:
        raise ValueError("the query is not UTF-8") from error
    names = [name for name, _ in given]
    for name, value in given:
        if name not in (*_REPEATED, *_SINGLE):
            known = ", ".join((*_REPEATED, *_SINGLE))
            raise ValueError(f"unknown field {name[:60]!r}; use {known}")
        if name in _SINGLE and names.count(name) > 1:
            raise ValueError(f"{name} is given twice")
        if "\0" in value:
            raise ValueError(f"{name} contains a null character")
    for name in ("key", "event_time"):
        if name not in names:
            raise ValueError(f"{name} is missing; name the column as ?{name}=...")
    single = {name: value for name, value in given if name in _SINGLE}
    return single | {name: [value for each, value in given if each == name] for name in _REPEATED}


def _judge(log: Path, fields: dict[str, str | list[str]]) -> Reply:
    # Warnings are off: standard error is to contain the reason for a refusal and nothing else.
    command = [
        *(sys.executable, "-W", "ignore"),
        *("-m", "idlestate.sidecar.server.advice_process"),
    ]
    pipe = subprocess.PIPE
    with subprocess.Popen(  # noqa: S603 - our own program
        command, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as judge:
        if sys.platform == "linux":
            resource.prlimit(judge.pid, resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
        line = json.dumps({"log": str(log), "fields": fields})
        try:
            told, problem = judge.communicate(f"{line}\n", timeout=MAX_SECONDS)
        except subprocess.TimeoutExpired:
            judge.kill()
            text = f"the log took longer than {MAX_SECONDS} s; use the command idlestate advise"
            return error_reply(HTTPStatus.SERVICE_UNAVAILABLE, text)
    if judge.returncode == ADVISED:
        return Reply(told.encode(), JSON)
    if judge.returncode == REFUSED:
        text = problem.strip().replace(str(log), "the log")
        return error_reply(HTTPStatus.BAD_REQUEST, text[:1000])
    if judge.returncode == BROKEN:  # the log of the sidecar gets the stack trace, the client a 500
        raise RuntimeError(f"the analysis of a log failed:\n{problem}")
    # OUT_OF_MEMORY, or an end that the process did not choose. It reports all errors of Python, so
    # the rest is code in C that cannot allocate memory: the dynamic linker exits, OpenBLAS exits or
    # raises SIGINT, others abort or crash, and the system kills a process that takes too much. If
    # the cause was another one, the text still helps: the command has no limit and shows the error.
    text = "the log needs more memory than a request gets; use the command idlestate advise"
    return error_reply(HTTPStatus.SERVICE_UNAVAILABLE, text)
