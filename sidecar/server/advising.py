"""Advice on an uploaded log of events: `POST /advise?key=...&event_time=...`.

`idlestate advise` analyzes the log in its own process, so this takes no memory and little time from
the sidecar. The log is not stored.
"""

import resource
import subprocess
import sys
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import parse_qsl

from idlestate.web.http_reply import JSON, Reply, error_reply
from idlestate.web.http_server import Request

MAX_LOG_BYTES: Final = 16 << 20
MAX_SECONDS: Final = 60
MAX_MEMORY_BYTES: Final = 4 << 30

_OUT_OF_MEMORY: Final = ("Traceback", "MemoryError", "Memory allocation")
"""What the command prints when it runs out of memory; the last text is from OpenBLAS."""
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
        options = list(_options(request.query))
    except ValueError as error:
        return error_reply(HTTPStatus.BAD_REQUEST, str(error))
    with TemporaryDirectory(prefix="idlestate-advise-") as folder:
        log = Path(folder) / f"log.{_ENDINGS[kind]}"
        log.write_bytes(request.body)
        return _judge(log, options)


def _options(query: str) -> Iterator[str]:
    """The options of the command, from the fields of a query.

    Raises:
        ValueError: a field is unknown, missing or repeated.
    """
    try:
        fields = parse_qsl(query, keep_blank_values=True, errors="strict")
    except UnicodeDecodeError as error:
        raise ValueError("the query is not UTF-8") from error
    names = [name for name, _ in fields]
    for name, value in fields:
        if name not in (*_REPEATED, *_SINGLE):
            known = ", ".join((*_REPEATED, *_SINGLE))
            raise ValueError(f"unknown field {name[:60]!r}; use {known}")
        if name in _SINGLE and names.count(name) > 1:
            raise ValueError(f"{name} is given twice")
        if "\0" in value:
            raise ValueError(f"{name} contains a null character")
        yield f"--{name.replace('_', '-')}={value}"
    for name in ("key", "event_time"):
        if name not in names:
            raise ValueError(f"{name} is missing; name the column as ?{name}=...")


def _judge(log: Path, options: list[str]) -> Reply:
    command = [sys.executable, "-m", "idlestate", "advise", str(log), "--format=json", *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(  # noqa: S603 - each field is one argument, and no option but its own
        command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True
    ) as judge:
        if sys.platform == "linux":
            resource.prlimit(judge.pid, resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
        try:
            told, problem = judge.communicate(timeout=MAX_SECONDS)
        except subprocess.TimeoutExpired:
            judge.kill()
            text = f"the log took longer than {MAX_SECONDS} s; use the command idlestate advise"
            return error_reply(HTTPStatus.SERVICE_UNAVAILABLE, text)
    if judge.returncode == 0:
        return Reply(told.encode(), JSON)
    if judge.returncode < 0 or any(sign in problem for sign in _OUT_OF_MEMORY):
        text = "the log needs more memory than a request gets; use the command idlestate advise"
        return error_reply(HTTPStatus.SERVICE_UNAVAILABLE, text)
    text = problem.strip().rpartition("Error: ")[2].replace(str(log), "the log")
    return error_reply(HTTPStatus.BAD_REQUEST, text[:1000])
